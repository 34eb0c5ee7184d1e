"""Is this box what it claims to be? Stacks, host, cards, environments, variables. Needs no torch and changes nothing."""

from .checkup import Checkup, examine
from .findings import Finding
from .machine import Identity, Machine
from .printing import as_json, for_an_issue, terminal

__all__ = ["Checkup", "Finding", "Identity", "Machine", "as_json", "examine", "for_an_issue", "terminal"]
