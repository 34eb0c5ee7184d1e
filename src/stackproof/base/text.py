"""Text from other machines and from the user's environment, made safe to print."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """Return text without control characters: another machine's log must not steer this terminal."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
