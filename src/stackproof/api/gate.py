"""Two variants of a stack and their launches in turn; needs no scipy."""

from stackproof.gate import changed, interleave, plan, variants
from stackproof.gate.interleave import SideEndedError, SideSpec
from stackproof.gate.variants import CompareRequest
