"""What asv measures: a file for each kind of work, over the subjects of `data/benchmarks.toml`. Listing them imports no torch."""
