"""Nights of a runner: the verbs `night`, `drift`, `site` and `nodes`.

May import: `api`.
"""
