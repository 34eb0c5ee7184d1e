"""What a run leaves behind: checks, verdicts and measurements as one validated JSON object, where it is kept and how it is shown.

May import: `base`.
Runs in: any Python, without torch.
"""
