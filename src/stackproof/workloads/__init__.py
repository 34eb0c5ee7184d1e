"""The objects that the suites verify and the benchmarks time, and the seeded data that they run on. A workload is a file.

May import: `operators`, `probes`, `device` and below.
Runs in: the stack's environment; a listing imports no torch.
"""
