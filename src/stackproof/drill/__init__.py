"""The drill: every fault that stackproof claims to catch is injected, and must be caught by name; without it nothing may be red.

Faults are rows of `fixtures/faults.toml`. Each is injected into a run of a public verb in a process of its own, and the record
that the run leaves is held against the row. A fault that nothing catches is a failing row, never a missing one.
"""
