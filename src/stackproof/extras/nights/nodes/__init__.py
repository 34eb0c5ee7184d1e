"""Nodes: what the doctor and the newest runs say of each host, as one table.

May import: `api`.
Runs in: any Python, without torch.
"""
