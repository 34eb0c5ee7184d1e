"""Nights of a runner: the verbs `night`, `drift` and `site`.

May import: `api`.
"""

STAGES = ("doctor", "smoke", "verify", "explore", "measure", "scan", "confirm", "site")
"""Of a night, in their order."""
