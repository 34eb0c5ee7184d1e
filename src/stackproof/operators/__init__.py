"""Operators against float64: torch's database and relations that hold for any operator, with code that repeats a failure.

May import: `device` and below.
Runs in: the stack's environment.
"""
