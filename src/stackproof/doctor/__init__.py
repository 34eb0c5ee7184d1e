"""Is this box what it claims to be? Host, cards, environments, variables; changes nothing.

May import: `stack`, `record`, `base`.
Runs in: any Python, without torch.
"""
