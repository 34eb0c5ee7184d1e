"""The core as plug-ins see it: the extras, and anybody's, import these modules and nothing else of stackproof.

Each says what has to be installed for it, so that a verb can refuse in one sentence where that is missing; docs/plug-ins.md
lists the names. May import: every room below.
Runs in: what each module says.
"""
