"""What need not be there: bisect, fleet and nights, each a plug-in of the core.

May import: `api`.
"""
