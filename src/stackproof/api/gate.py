"""Two variants of a stack and their launches in turn; needs no scipy."""

from stackproof.gate import changed, commits, interleave, plan, variants
from stackproof.gate.live import SideEndedError, SideSpec
from stackproof.gate.request import CompareRequest
