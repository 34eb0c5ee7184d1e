"""What a metric is, and where a run says it: a pattern, a rate such as it/s, a path into JSON, the steps of a callback, or time."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import Any, Literal

from stackproof import DATA
from stackproof.base import files, places
from stackproof.base.errors import Refusal
from stackproof.base.text import plain
from stackproof.base.toml import kept_rows

FILE = DATA / "metrics.toml"
TIME, STEPS = "time", "steps"
STEPS_FILE = "STACKPROOF_STEPS"
"""The variable that tells a callback of ours where its steps are written to."""
_RATE = re.compile(r"[A-Za-z_]+/s$")
_JSON = re.compile(r"(?:(?P<file>[^$]+):)?(?P<path>\$[.\[].+)")
_PART = re.compile(r"\.(?P<name>[\w-]+)|\[(?P<number>-?\d+)\]|\['(?P<quoted>[^']+)'\]")
_SCALES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
MOST_READ = 64 << 20
"""Bytes of the end of an output in which figures are looked for."""
_NAME_WIDTH = 40


class MetricMissing(Exception):  # noqa: N818 - the command is what may be wrong
    """A run does not say what was asked for; the message says what there is instead."""


@dataclass(frozen=True)
class Output:
    """What one run left: its output, the folder that it ran in, the file of its callback, and the files that it wrote there."""

    log: Path
    folder: Path
    steps: Path
    seconds: float
    before: dict[Path, int]
    """By file that a metric names, when it was last written before the run began (ns); 0 where there was none."""

    def text(self) -> str:
        """Return the end of what it printed, up to 64 MiB; a progress bar's carriage returns are ends of lines."""
        with self.log.open("rb") as stream:
            stream.seek(max(0, self.log.stat().st_size - MOST_READ))
            return stream.read().decode("utf-8", errors="replace").replace("\r", "\n")


@dataclass(frozen=True)
class Metric:
    """One figure of a run. `higher`: whether more is better."""

    text: str
    name: str
    kind: Literal["regex", "rate", "json", "steps", "time"]
    higher: bool
    file: str = ""
    """Of JSON, where it stands, relative to the run's folder; empty where that is the output."""
    path: tuple[str | int, ...] = ()
    """Of JSON, the way to it."""

    def values(self, output: Output) -> list[float]:
        """Return all that a run says of it, in order (MetricMissing: it says nothing, or no number)."""
        numbers = list(_READERS[self.kind](self, output))
        if not numbers:
            raise MetricMissing(
                f"the output has no {plain(self.text, 200)!r}; docs/your-command.md says what is looked for"
            )
        return numbers

    def value(self, values: Sequence[float]) -> float:
        """Return the one value of a run: the last of a rate, which of a bar that ended is its mean, else the median."""
        return values[-1] if self.kind == "rate" else median(values)

    @property
    def counted(self) -> bool:
        """Whether so many values are the same amount of work; a progress bar prints when it likes."""
        return self.kind in ("regex", "steps")


def parse(text: str, better: str = "", flag: str = "--metric") -> Metric:
    """Read one metric as a flag has it; `better`: higher or lower, or empty to look it up in `data/metrics.toml`.

    Raises:
        Refusal: it is no metric, or nobody knows which direction is better.
    """
    if text in (TIME, STEPS):
        return Metric(text, text, "time" if text == TIME else "steps", higher=False)
    if _RATE.match(text):
        return Metric(text, text, "rate", higher=better != "lower")
    if text.startswith("$") or ("(" not in text and ":$" in text):
        return _of_json(text, better, flag)
    name = _name(text, flag)
    return Metric(text, name, "regex", _is_higher(name, text, better))


def _of_json(text: str, better: str, flag: str) -> Metric:
    match = _JSON.fullmatch(text)
    parts = list(_PART.finditer(match["path"])) if match else []
    if match is None or "".join(part[0] for part in parts) != match["path"][1:]:
        raise Refusal(
            f"{flag} '{text}' is no path into JSON; write '$.train.samples_per_second', '$.runs[-1].loss', "
            "or 'results.json:$.speed' for a file"
        )
    name = match["path"].removeprefix("$").removeprefix(".")
    path = tuple(part["name"] or part["quoted"] or int(part["number"]) for part in parts)
    return Metric(text, name, "json", _is_higher(name, text, better), match["file"] or "", path)


def _name(text: str, flag: str) -> str:
    """Return the name of a regular expression with one group: the group's own, else the words of the pattern."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise Refusal(
            f"{flag} '{text}' is no regular expression ({error}); write for instance 'loss: ([0-9.]+)'"
        ) from None
    if pattern.groups != 1:
        raise Refusal(
            f"{flag} '{text}' has {pattern.groups} groups and needs one, around the number; write for instance "
            "'loss: ([0-9.]+)', it/s, $.path.in.json, steps or time"
        )
    if pattern.groupindex:
        return next(iter(pattern.groupindex))
    bare = re.sub(r"\(.*\)|\\.", " ", text)
    return " ".join(re.findall(r"[\w/%.-]*[A-Za-z][\w/%.-]*", bare))[:_NAME_WIDTH] or text[:_NAME_WIDTH]


@dataclass(frozen=True)
class _Direction:
    better: Literal["higher", "lower"]
    names: tuple[str, ...]


_table = kept_rows(FILE, "direction", _Direction)


def _is_higher(name: str, text: str, better: str) -> bool:
    if better:
        return better == "higher"
    for word in (name.lower(), text.lower()):
        for row in _table():
            if any(fnmatchcase(word, pattern) for pattern in row.names):
                return row.better == "higher"
    raise Refusal(
        f"--metric '{text}': is more of it better, or less? {places.table('metrics.toml')} does not know '{name}'; "
        "write --metric-higher or --metric-lower in place of --metric"
    )


def number(word: str) -> float:
    """Read a number as programs print it: 1,234.5, 1e-3, 12 %, nan (MetricMissing: it is none)."""
    try:
        return float(word.strip().rstrip("%").replace(",", "").replace("_", ""))
    except ValueError:
        raise MetricMissing(f"the group matched {plain(word, 80)!r}, which is no number") from None


def _by_regex(metric: Metric, output: Output) -> Iterator[float]:
    for match in re.finditer(metric.text, output.text()):
        yield number(match[1] or "")


def _by_rate(metric: Metric, output: Output) -> Iterator[float]:
    """Find `12.3it/s` and `1.2k it/s`, and `1.5s/it` turned round, as tqdm prints slow steps."""
    unit = re.escape(metric.text.removesuffix("/s"))
    shown = re.compile(
        rf"(?<![\w.])(?P<number>\d[\d.,]*(?:e[+-]?\d+)?|nan|inf)\s?(?P<scale>[kKMG]?)\s?(?:(?P<rate>{unit}/s)|s/{unit})\b"
    )
    for match in shown.finditer(output.text()):
        value = number(match["number"]) * _SCALES[match["scale"]]
        yield value if match["rate"] else (1 / value if value else math.inf)


def _by_json(metric: Metric, output: Output) -> Iterator[float]:
    if metric.file:
        value = _into(_of_file(metric.file, output), metric.path)
        if value is None:
            raise MetricMissing(f"{metric.file} has no {metric.text.removeprefix(f'{metric.file}:')}")
        yield _as_number(value, metric.text)
        return
    for line in reversed(output.text().splitlines()):
        if (value := _into(_as_object(line), metric.path)) is not None:
            yield _as_number(value, metric.text)
            return


def _of_file(name: str, output: Output) -> Any:
    path = output.folder / name
    try:
        if path.stat().st_mtime_ns == output.before.get(path):
            raise MetricMissing(f"{name} was not written by this run; what it holds is older")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise MetricMissing(f"{name} cannot be read ({error.strerror})") from error
    lines = [line for line in text.splitlines() if line.strip()]
    value = files.try_parse_json(text)
    return _as_object(lines[-1]) if value is None and lines else value


def _as_object(line: str) -> Any:
    """Return the object that a line ends with, as JSON or as Python prints it; None where there is none."""
    at = min((place for place in (line.find("{"), line.find("[")) if place >= 0), default=-1)
    if at < 0:
        return None
    if (found := files.try_parse_json(line[at:])) is not None:
        return found
    try:
        return ast.literal_eval(line[at:].strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _into(value: Any, path: Sequence[str | int]) -> Any:
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _as_number(value: Any, text: str) -> float:
    if isinstance(value, str):
        return number(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise MetricMissing(f"{text} is {plain(str(value), 80)!r}, which is no number")
    return float(value)


def _by_callback(_: Metric, output: Output) -> Iterator[float]:
    """The first step of several builds and compiles: it is left out."""
    seconds = [row["seconds"] for row in rows_of(output.steps) if "seconds" in row]
    yield from seconds[1:] if len(seconds) > 1 else seconds


def rows_of(steps: Path) -> list[dict[str, float]]:
    """Return what a callback wrote, a row a step; a line that was cut short is left out."""
    try:
        lines = steps.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    values = [_as_object(line) for line in lines]
    return [row for row in values if isinstance(row, dict)]


_READERS: dict[str, Callable[[Metric, Output], Iterable[float]]] = {
    "regex": _by_regex, "rate": _by_rate, "json": _by_json, "steps": _by_callback, "time": lambda _, output: [output.seconds]
}  # fmt: skip
