"""Operators against float64: torch's database and our own shapes, computed, compared, and told as code that repeats a failure.

May import: `device` and below.
Runs in: the stack's environment.
"""
