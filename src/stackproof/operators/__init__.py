"""Operators against float64: torch's database and our own shapes, examined, judged, and told as code that repeats a failure."""
