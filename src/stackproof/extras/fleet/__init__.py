"""A fleet: many hosts do the same work, each leaves a record, and the odd one out is found and named.

May import: `api`. What plans and judges imports no torch.
Runs in: `card` in a stack's environment, on the host; plans and judgements in any Python.
"""
