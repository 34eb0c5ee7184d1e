"""A night: the stack is proved, today's state is measured beside a frozen one, and a step that shows is confirmed at once.

May import: `api`.
Runs in: our own environment with scipy; the sides, and the verbs that prove the stack, run in the stack's.
"""
