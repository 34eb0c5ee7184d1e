"""One run of suites: which suites, in which supervised processes, under which deadlines, into which record.

May import: `workloads` and below, but for `plugin` nothing that needs torch.
Runs in: the supervisor in any Python; `plugin` in the stack's environment.
"""
