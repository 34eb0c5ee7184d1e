"""The site: one folder of plain pages that show what every record proves, what changed since, and what nobody has looked at.

May import: `api`.
Runs in: any Python that has numpy; a stack's environment never needs it.
"""
