"""The history of figures: an append-only store of records, series that never mix, and asv as one way to look at it.

`store` keeps records, `identity` says to which series and state each belongs, `entries` and `states` order them; none of them
needs asv. What imports asv lies in `stackproof.history.asv`, and runs in an environment of its own.
"""
