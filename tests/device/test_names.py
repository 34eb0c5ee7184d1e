"""Names of devices: what is wrong with one is said without asking torch."""

from __future__ import annotations

import pytest

from stackproof.base.errors import Refusal
from stackproof.device.names import require_of


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cuda:9", "is not of this stack, which uses 'xpu'"), ("9", "names no type; write 'xpu:9'"), ("xpu:0,1", "names several devices"),
        ("xpu\N{FULLWIDTH COLON}1", "full-width colon"), ("xpu:01", "is not a device"), ("", "is not a device"), ("XPU", "is not a device"),
    ],
)  # fmt: skip
def test_a_name_that_cannot_be_is_refused(text: str, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        require_of(text, "xpu")


@pytest.mark.parametrize("text", ["xpu", "xpu:0", "xpu:9"])
def test_a_name_that_can_be_is_none_of_its_concern(text: str) -> None:
    require_of(text, "xpu")
