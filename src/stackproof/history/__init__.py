"""The history of figures: an append-only store of records, series that never mix, and asv as one way to look at it.

`store` keeps records, `identity` says to which place and state each belongs, `entries` and `states` order them, `rates` and `page` show
them. The modules whose names begin with `asv_` import asv, `asv_names` apart, and run in an environment of asv's own.
"""
