"""What every room stands on: errors with a remedy, TOML rows, text, processes, units, statistics.

May import: nothing of stackproof.
Runs in: any Python, without torch.
"""
