"""Nights: did a figure step, since which night, and who is the likeliest cause: code, wheels, driver or machine.

May import: `api`.
Runs in: any Python that has numpy; a stack's environment never needs it.
"""
