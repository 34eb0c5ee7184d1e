"""The only room that tells cuda, xpu and cpu apart: which devices there are, what they can do, how exact they are, what they report.

May import: `stack`, `record`, `base`.
Runs in: the stack's environment.
"""
