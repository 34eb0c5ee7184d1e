"""What comes from the user's own project, and what a workload, ours or theirs, says that it can take part in.

May import: `base`.
Runs in: any Python; no torch, so that names can be listed where torch is missing or broken.
"""
