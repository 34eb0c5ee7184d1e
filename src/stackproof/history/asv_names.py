"""What asv calls things: benchmarks, machines, environments and the axes of its graphs. Needs no asv.

A benchmark's name is the same whether asv ran it or a record of `bench` is shown to asv, and so is everything that makes a
series: asv's `asv run` and our projection write the same files.
"""

from __future__ import annotations

import re
from functools import cache

from stackproof.bench.subjects import Subject, profiles, subjects
from stackproof.history.timeline import Pooled, SeriesKey
from stackproof.record.store import Place, State, slug
from stackproof.stack import stacks

RETIRED = "retired"
"""The module of subjects that `data/benchmarks.toml` no longer has; their history stays."""


def benchmark(key: SeriesKey) -> str:
    """Return the name of a figure's benchmark: the leaf under `benchmarks/` and a function in it."""
    known = _subjects().get(key.subject)
    return f"{leaf(known.kind) if known else RETIRED}.track_{_word(key.subject)}_{key.preset}"


def title(key: SeriesKey) -> str:
    """Return how asv's pages call it, with what the seconds are for."""
    _, _, thing = key.unit.partition("/")
    return f"{key.subject} ({key.preset}){', per ' + thing if thing else ''}"


def unit(key: SeriesKey) -> str:
    """Return the unit that asv is told: it knows how to write seconds, and the title says for how much work they are."""
    return "seconds" if key.unit.partition("/")[0] == "s" else key.unit


def leaf(kind: str) -> str:
    """Return the module under `benchmarks/` that measures subjects of a kind."""
    return _word(kind)


def description(one: Pooled) -> dict[str, object]:
    """Return what `benchmarks.json` says of a benchmark: its version is that of the checkout, which hides figures of others.

    `code` is empty, because the version is explicit.
    """
    known = _subjects().get(one.key.subject)
    return {
        "name": benchmark(one.key),
        "pretty_name": title(one.key),
        "type": "track",
        "unit": unit(one.key),
        "version": known.version if known else one.version,
        "params": [],
        "param_names": [],
        "code": "",
    }


def machine(place: Place) -> dict[str, str]:
    """Return what asv keeps of a machine: its name alone, because each entry is an axis of asv's graphs and may not drift."""
    return {"machine": slug(place.host)}


def environment(place: Place, state: State) -> str:
    """Return the name of the environment: part of every file's name, so that two drivers never share a file."""
    return f"{place.slug}-{state.digest[:8]}"


def axes(place: Place, state: State) -> dict[str, str]:
    """Return what asv shows and tells apart as requirements: stack, devices, driver, torch, and the state as a whole."""
    return {
        "stack": f"{place.stack} (rehearsed)" if place.rehearsed else place.stack,
        "devices": place.devices,
        "driver": state.version("driver"),
        "torch": state.fact("wheels", "torch"),
        "state": state.digest[:8],
        "place": place.digest[:8],
    }


def python(state: State) -> str:
    """Return the version of Python that ran."""
    return state.fact("wheels", "python")


@cache
def _subjects() -> dict[str, Subject]:
    """Return the subjects of all profiles by name; the list does not depend on the stack."""
    any_stack = stacks.load_all()[0]
    return {subject.name: subject for chosen in profiles() for subject in subjects(chosen.name, any_stack)}


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
