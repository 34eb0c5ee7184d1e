"""Other people's programs and tests: launched, watched and counted from outside, without a change of theirs.

May import: `device`, `triage`, `stack`, `record`, `base`.
Runs in: ours; `inside`, `callbacks` and `pytest_child` in the environment of the program.
"""
