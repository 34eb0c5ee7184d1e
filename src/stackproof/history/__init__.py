"""The history of figures: series that never mix, and asv as one way to look at them.

May import: `gate` and below, without torch.
Runs in: any Python; modules named asv_* in asv's environment, `leaf` in the stack's.
"""
