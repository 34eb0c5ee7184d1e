"""How a verb is added to the command line; needs nothing installed."""

from typing import TYPE_CHECKING

from stackproof.commands import arguments, locks

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs
