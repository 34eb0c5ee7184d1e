"""Collectives: every call of the table against exact results, and what each costs.

May import: `ranks` and below.
Runs in: the stack's environment, one process a rank.
"""
