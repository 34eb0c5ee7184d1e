"""Nodes: what the doctor and the newest runs say of each host, as one table and as figures for Prometheus.

May import: `api`.
Runs in: any Python, without torch.
"""
