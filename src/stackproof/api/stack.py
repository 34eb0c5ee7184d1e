"""Stacks, the host, and the project beside it."""

from stackproof.project import projects
from stackproof.stack import hosts, provenance, stacks
