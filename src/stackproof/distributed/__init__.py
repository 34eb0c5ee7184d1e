"""Ranks: how they are launched, what they prove about a backend, and how their failures are named."""
