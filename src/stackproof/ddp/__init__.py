"""Data-parallel training: does it converge as one process does, bit for bit where it must?

May import: `collectives` and below.
Runs in: the stack's environment, one process a rank.
"""
