"""Flags of the verbs that compare two sides, and what is asked by them; needs nothing installed."""

from stackproof.commands import gate
