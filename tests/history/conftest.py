"""What tests of asv share: one checkout in which the real asv measured one commit under two drivers, the second 12 % slower."""

from __future__ import annotations

from pathlib import Path

import pytest

from .making import Checkout

HERE = Path(__file__).parent
DRIVERS = ("550.54.14", "560.35.3")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever runs asv itself has a session of its own: it takes minutes."""
    for item in items:
        if item.path.parent == HERE and item.path.name.startswith("test_asv_"):
            item.add_marker(pytest.mark.real_asv)


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout with two runs of `asv run` at one commit; not to be changed."""
    checkout = Checkout(tmp_path_factory.mktemp("measured"))
    for driver, seconds in zip(DRIVERS, (1e-3, 1.12e-3), strict=True):
        checkout.be(driver, seconds)
        ended = checkout.asv("--stack", "cpu", "run", "HEAD^!", "--bench", "float32", "--show-stderr")
        assert ended.returncode == 0, ended.stdout + ended.stderr
    return checkout


@pytest.fixture
def checkout(measured: Checkout, tmp_path: Path) -> Checkout:
    return measured.copy(tmp_path / "checkout")


@pytest.fixture
def fresh(tmp_path: Path) -> Checkout:
    (tmp_path / "fresh").mkdir()
    return Checkout(tmp_path / "fresh")
