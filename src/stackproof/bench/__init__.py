"""Figures that can be believed: verified first, warmed up, timed by the device's own clock.

May import: `collectives` and below.
Runs in: the stack's environment; `subjects` and `rows` anywhere.
"""
