"""Which part of a change did it: the difference of two sides as one list, and tests beside the good side until one part is left.

May import: `api`. `evidence`, `splits` and `lineage` are plain computing and start nothing.
Runs in: our own environment with scipy, as `gate` does.
"""
