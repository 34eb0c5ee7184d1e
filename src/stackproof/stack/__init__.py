"""What a stack is and whether this environment is it: definition, lock, environment, host, variables, provenance, known issues.

May import: `record`, `project`, `base`.
Runs in: nox's Python and the stack's environment, without torch.
"""
