"""Ranks: how they are launched or joined, what they prove about a backend, and how their failures are named.

May import: `runner` and below.
Runs in: the stack's environment, one process a rank.
"""
