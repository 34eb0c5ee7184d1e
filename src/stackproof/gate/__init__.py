"""Is the head worse than the base? Two variants of a stack, measured side by side, and what may be concluded.

May import: `bench` and below.
Runs in: our own environment with scipy; `side`, `group`, `computed` and `planted` in the stack's.
"""
