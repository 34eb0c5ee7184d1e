"""Records on the terminal and as a page; needs rich."""

from stackproof.record import console
