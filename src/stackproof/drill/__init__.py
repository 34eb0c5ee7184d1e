"""Every fault that stackproof claims to catch is injected, and must be caught by name; without it nothing may be red.

May import: `gate` and below, without torch.
Runs in: any Python; `planted` inside the process that gets the fault.
"""
