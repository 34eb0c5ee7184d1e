"""What needs nothing installed: refusals, files, text, processes, tables, statistics."""

from stackproof.base import advice, files, git, places, processes, statistics, text, toml
from stackproof.base.errors import Refusal, suggestion
