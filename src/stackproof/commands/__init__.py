"""The verbs of the command line: what each takes, and what it calls.

May import: every room.
Runs in: any Python, without torch: a verb imports what it needs when it is called.
"""
