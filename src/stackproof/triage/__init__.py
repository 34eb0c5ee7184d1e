"""What is wrong with a run, from its logs alone: the root cause first, then what follows from it.

May import: `stack`, `record`, `base`.
Runs in: any Python, without torch.
"""
