"""Which runs of a drill have their processes forked, and from what."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stackproof.base import places
from stackproof.drill import drill, forking, table
from stackproof.drill.inject import Injection, Planted, Site, Variables
from stackproof.drill.servers import ForkServers, serving
from stackproof.drill.table import ForkedSuites
from stackproof.runner import suites

from .making import call, fault

ROWS = (ForkedSuites(("rng", "timer"), ("fractions",)), ForkedSuites(("models",), ("fractions", "decimal")))
PYTHON = Path(sys.executable)


def offered(servers: ForkServers, tmp_path: Path, *names: str) -> str:
    """Return what a run of these suites is offered."""
    site = Site(tmp_path, PYTHON)
    servers.offer(site, [(call(suites=names), PYTHON)])
    return site.variables.get(forking.SERVER, "")


def test_a_server_is_started_where_it_pays(tmp_path: Path) -> None:
    asked = [("rng",), ("timer",), ("rng",), ("rng",), ("models",), ("failures",) * 2, ("failures", "rng")]
    runs = [(call(suites=names), PYTHON) for names in (*asked, *asked[-2:], *asked[-2:])]
    with serving(ForkServers(ROWS, tmp_path / "servers"), runs) as servers:
        assert Path(offered(servers, tmp_path, "timer")).is_socket()
        assert offered(servers, tmp_path, "rng") == offered(servers, tmp_path, "timer")
        assert not any(
            offered(servers, tmp_path, *names) for names in (("models",), ("failures",), ("failures", "rng"))
        )
        assert servers.counted() == {"processes forked": 0, "processes that could not be forked": 0}


def test_a_run_of_two_suites_takes_a_server_that_has_what_both_import(tmp_path: Path) -> None:
    runs = [(call(suites=names), PYTHON) for names in (("models",), ("rng", "models"))] * 2
    with serving(ForkServers(ROWS, tmp_path / "servers"), runs) as servers:
        assert offered(servers, tmp_path, "rng", "models") == offered(servers, tmp_path, "models") != ""


def test_a_server_that_does_not_start_is_done_without(tmp_path: Path) -> None:
    rows = (ForkedSuites(("rng",), ("sys; nothing",)),)
    (tmp_path / "bin").mkdir()
    broken = tmp_path / "bin/python"
    broken.symlink_to("/bin/false")
    with serving(ForkServers(rows, tmp_path / "servers"), [(call(), broken)] * 4) as servers:
        site = Site(tmp_path, broken)
        servers.offer(site, [(call(), broken)])
        assert not site.variables


@pytest.mark.parametrize(
    ("injection", "afresh", "forked"),
    [(Planted("fired()"), False, True), (Planted("fired()"), True, False), (Variables({"OMP": "1"}), False, False)],
)
def test_what_is_about_the_start_of_a_process_starts_one(injection: Injection, afresh: bool, forked: bool) -> None:
    assert bool(drill._forks(fault(injection, afresh=afresh))) is forked


def test_the_table_forks_from_nothing_of_ours() -> None:
    rows = table.load().forked
    names = {name.split("::")[0].split("/")[0] for name in suites.defined(places.SUITES)} | {"bench"}
    assert {suite for row in rows for suite in row.suites} <= names
    assert not [
        name for row in rows for name in row.modules if name.split(".")[0] in ("stackproof", "suites", "torch_sim")
    ]
