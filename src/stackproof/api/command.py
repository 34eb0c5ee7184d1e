"""How a verb is added to the command line, and the flags of verbs that compare two sides; needs nothing installed."""

from typing import TYPE_CHECKING

from stackproof.commands import arguments, gate, locks

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs
