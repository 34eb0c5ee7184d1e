"""How a verb is added to the command line; needs nothing installed."""

from stackproof.commands import arguments
