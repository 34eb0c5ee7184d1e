"""Shows the store to asv: result files, machines and benchmarks as asv keeps them, made from the records.

The store is the truth and only grows; what asv reads is a view that can be deleted. Of the code's history, a file for each
commit in each state of each place; of the states' history, which `states` makes a repository of, a file for each state.
Imports asv, so it runs in asv's own environment.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asv import results as asv_results
from asv.benchmarks import Benchmarks
from asv.machine import Machine
from asv.runner import BenchmarkResult
from asv.util import UserError

from stackproof.base import files, git
from stackproof.base.files import write_atomically
from stackproof.history import leaf, timeline
from stackproof.history.timeline import Entry, Pooled, entries, pooled
from stackproof.record import store
from stackproof.record.store import slug

INDEX = "view.index"
"""The files of the view that were made from records; not `.json`, which asv would take for results."""
_BESIDE = ".saving"
_DESCRIPTIONS = "benchmarks.json"


@dataclass(frozen=True)
class Group:
    """The entries that one of asv's files is made from."""

    commit: str
    date: int
    """Of the commit, in milliseconds since 1970."""
    environment: str
    python: str
    axes: Mapping[str, str]
    entries: list[Entry]


def refresh(results: Path, repository: Path, folders: Iterable[Path]) -> list[str]:
    """Make the view of the code's history from the store; return what a person should know."""
    with files.locked(results / ".view.lock"):
        loaded, dates = store.load(folders), _dates(repository)
        by_file: dict[str, Group] = {}
        for entry in entries(loaded.records):
            if entry.commit:
                name, axes = leaf.environment(entry.place, entry.state), leaf.axes(entry.place, entry.state)
                python, date = entry.state.fact("wheels", "python"), dates.get(entry.commit, 0)
                file = str(asv_results.get_filename(slug(entry.place.host), entry.commit, name))
                group = by_file.setdefault(file, Group(entry.commit, date, name, python, axes, []))
                group.entries.append(entry)
        for name in set(files.try_read_json(results / INDEX) or ()) - by_file.keys():
            (results / name).unlink(missing_ok=True)
        _write_all(results, [group for group in by_file.values() if group.commit in dates])
        write_atomically(results / INDEX, json.dumps(sorted(by_file)))
    unknown = {group.commit for group in by_file.values()} - dates.keys()
    lacking = f"{len(unknown)} commits of the records are not in this clone and are not shown by commit"
    return [*loaded.problems, *([lacking] if unknown else [])]


def _write_all(results: Path, groups: Iterable[Group]) -> None:
    """Write a file for each group, and add the benchmarks in them to asv's list, which it replaces by what one profile has."""
    benchmarks: dict[str, dict[str, Any]] = {}
    for group in groups:
        benchmarks |= {leaf.name_of(figure.key): leaf.description(figure) for figure in write(results, group)}
    shutil.rmtree(results / _BESIDE, ignore_errors=True)
    known = files.try_read_json(results / _DESCRIPTIONS) or {}
    other = {name: row for name, row in benchmarks.items() if known.get(name, {}).get("version") != row["version"]}
    if other or not known:
        rows = {**known, **other, "version": Benchmarks.api_version}
        write_atomically(results / _DESCRIPTIONS, json.dumps(rows, indent=1))


def write(results: Path, group: Group) -> list[Pooled]:
    """Write one of asv's files through asv itself, and return the figures in it; what asv alone knows there (failures) stays.

    A damaged file is set aside: the records hold what matters.
    """
    machine = {"machine": slug(group.entries[0].place.host)}  # its name alone: each entry is an axis of asv's graphs
    parameters = {**machine, "python": group.python, **group.axes}
    kept = asv_results.Results(
        parameters, dict(group.axes), group.commit, group.date, group.python, group.environment, {}
    )
    try:
        kept.load_data(str(results))
    except (UserError, KeyError, TypeError):
        path = results / kept._filename
        path.replace(path.with_name(path.name + store.ASIDE))
    figures = pooled(group.entries)
    for figure in figures:
        answer = BenchmarkResult([True], [list(figure.samples)], [1], 0, "", None)
        kept.add_result(leaf.description(figure), answer, figure.started, record_samples=True)
    beside, target = results / _BESIDE, results / kept._filename
    kept.save(str(beside))
    if not (description := target.parent / "machine.json").exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(description, json.dumps({**machine, "version": Machine.api_version}))
    (beside / kept._filename).replace(target)
    return figures


def show_states(folder: Path, entries: Iterable[Entry]) -> dict[str, list[timeline.Stay]]:
    """Make the repository of states and asv's files for it below `folder`, both anew; return the states by place."""
    results = folder / "results"
    with files.locked(folder / ".view.lock"):
        chains = timeline.stays(entries)
        commits = timeline.write(chains, folder / "repository")
        shutil.rmtree(results, ignore_errors=True)
        results.mkdir(parents=True)
        groups = []
        for name, chain in chains.items():
            for commit, stay in zip(commits[name], chain, strict=True):
                place = stay.place  # the state is the commit: only the place tells series apart
                axes = {"stack": place.stack, "devices": place.devices, "place": place.slug}
                groups.append(Group(commit, stay.seconds * 1000, place.slug, "", axes, stay.entries))
        _write_all(results, groups)
    return chains


def _dates(repository: Path) -> dict[str, int]:
    """Return the date of every commit of a repository, as asv has it: the author's, in milliseconds."""
    listed = git.try_output(repository, "log", "--all", "HEAD", "--format=%H %at", seconds=600) or ""
    return {commit: int(date) * 1000 for commit, date in (line.split() for line in listed.splitlines())}
