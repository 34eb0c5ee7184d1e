"""What a device is called: a type and an index. What is wrong with a name is said before anything asks torch."""

from __future__ import annotations

import re

from stackproof.base.errors import Refusal

_FULL_WIDTH_COLON = "\N{FULLWIDTH COLON}"


def require_of(text: str, kind: str) -> None:
    """Refuse a name that no device of a stack of type `kind` can have."""
    refuse_slips(text, kind)
    if text.partition(":")[0] != kind:
        raise Refusal(
            f"device '{text}' is not of this stack, which uses '{kind}'; write '{kind}:0' or choose another stack"
        )


def refuse_slips(text: str, kind: str) -> None:
    """Refuse what people type by mistake, with what they meant."""
    if _FULL_WIDTH_COLON in text:
        raise Refusal(
            f"device '{text}' has a full-width colon (U+FF1A); type it as '{text.replace(_FULL_WIDTH_COLON, ':')}'"
        )
    if "," in text:
        raise Refusal(
            f"device '{text}' names several devices where one is meant; write '{text.split(',')[0]}' and launch one rank per card"
        )
    if re.fullmatch(r"\d+", text):
        raise Refusal(f"device '{text}' names no type; write '{kind}:{text}'")
    if not re.fullmatch(r"[a-z][a-z0-9_]*(:(0|[1-9]\d*))?", text):
        raise Refusal(f"device '{text}' is not a device; write a type and an index, such as '{kind}:0'")
