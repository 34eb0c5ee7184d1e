"""Other people's programs and tests: launched, watched and counted from outside, without a change of theirs.

May import: `device`, `triage`, `stack`, `record`, `base`.
Runs in: ours; `inside`, `callbacks` and a part of `pytest_runs` in the environment of the program.
"""
