"""What suites that compare in float32 share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stackproof.device.numerics import shortened


@pytest.fixture(autouse=True)
def plain_float32() -> Iterator[None]:
    """Keep every product and convolution of a check in full float32."""
    with shortened(False):
        yield
