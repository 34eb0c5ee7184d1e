"""Two variants of a stack and their launches in turn; needs no scipy."""

from stackproof.gate import interleave, plan, variants
