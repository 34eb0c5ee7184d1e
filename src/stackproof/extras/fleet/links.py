"""The slow link told from the slow host: what all pairs of a host share is its own, and what is left is the link's."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from stackproof.base import files
from stackproof.extras.fleet import outliers, rules
from stackproof.extras.fleet.judgement import LinkStanding

FOLDER = ".pairs"
"""Hidden, as what looks for records passes over what is: those of pairs are no runs of a stack."""
RESULT = "rank0.json"
"""What `ranks` leaves of a pair, in a folder called FIRST--SECOND in one for each round."""
_APART = "--"
_POLISHES = 10
_MOST_BYTES = 4 << 20
Pair = tuple[str, str]


@dataclass(frozen=True)
class PairTime:
    """Two hosts in one round, and the median seconds of their all-reduce."""

    first: str
    second: str
    seconds: float


def place(folder: Path, number: int, first: str, second: str) -> Path:
    """Return the folder of a pair."""
    return folder / FOLDER / f"round-{number:02}" / f"{rules.host(first)}{_APART}{rules.host(second)}"


def gather(folder: Path) -> tuple[list[PairTime], list[Pair]]:
    """Return what pairs left, and the pairs that left nothing that could be believed."""
    found, lost = list[PairTime](), list[Pair]()
    for path in sorted((folder / FOLDER).glob(f"round-*/*{_APART}*")):
        first, _, second = path.name.partition(_APART)
        if not (rules.is_host(first) and rules.is_host(second)):
            continue
        seconds = _seconds(path / RESULT)
        if seconds:
            found.append(PairTime(first, second, seconds))
        else:
            lost.append((first, second))
    return found, lost


def _seconds(path: Path) -> float:
    """Return the median of a pair's samples; 0 for a file that is none, or tells what cannot be."""
    if path.is_symlink() or files.why_unreadable(path, _MOST_BYTES):
        return 0.0
    try:
        told = json.loads(path.read_bytes())["ranks"]
        slowest = [float(median([float(one) for one in rank["seconds"]])) for rank in told]
    except (ValueError, KeyError, TypeError, RecursionError, OSError):
        return 0.0
    found = max(slowest, default=0.0)
    return found if math.isfinite(found) and found > 0 else 0.0


def judge(times: Sequence[PairTime]) -> list[LinkStanding]:
    """Return the slow hosts and the slow links, the slowest first.

    Logarithms of seconds are a middle, plus a share of each host, plus what is the link's own, found by median polish (Tukey 1977):
    a link that is slow moves neither host's median, and a host that is slow moves all of its links.
    """
    chosen, own = rules.load().pairs, _polished(times)
    middle = median([math.log(one.seconds) for one in times]) if times else 0.0
    left = {one: math.log(one.seconds) - middle - own[one.first] - own[one.second] for one in times}
    partners = {host: sum(host in (one.first, one.second) for one in times) for host in own}
    known = {host: share for host, share in own.items() if partners[host] >= chosen.least}
    found = [
        LinkStanding(host, "", math.exp(share), z, f"slow in all of its {partners[host]} pairs")
        for host, share, z in _slow(known, chosen)
    ]
    found += [
        LinkStanding(one.first, one.second, math.exp(rest), z, "a slow link: both hosts are as usual with others")
        for one, rest, z in _slow(
            {one: rest for one, rest in left.items() if {one.first, one.second} <= set(known)}, chosen
        )
    ]
    return sorted(found, key=lambda one: -one.ratio)


def _polished(times: Sequence[PairTime]) -> dict[str, float]:
    """Return the share of each host: the median of what its pairs take beyond the middle and their partners' shares."""
    own = {host: 0.0 for one in times for host in (one.first, one.second)}
    middle = median([math.log(one.seconds) for one in times]) if times else 0.0
    for _ in range(_POLISHES):
        for host in own:
            own[host] = median(list(_beyond(times, host, own, middle)))
    return own


def _beyond(times: Sequence[PairTime], host: str, own: Mapping[str, float], middle: float) -> Iterator[float]:
    for one in times:
        if host in (one.first, one.second):
            other = one.second if host == one.first else one.first
            yield math.log(one.seconds) - middle - own[other]


def _slow(values: Mapping[outliers.Key, float], chosen: rules.PairRules) -> Iterator[tuple[outliers.Key, float, float]]:
    """Yield what is beyond the others: its logarithm and its z."""
    if len(values) < chosen.least:
        return
    spread = outliers.spread([math.exp(one) for one in values.values()], chosen.floor)
    for key, value in values.items():
        z = spread.z(math.exp(value))
        if z >= chosen.suspect and math.expm1(value) >= chosen.effect:
            yield key, value, z


def told(folder: Path) -> tuple[tuple[LinkStanding, ...], list[str]]:
    """Return what the pairs of a sweep amount to, and a sentence for what is not known."""
    times, lost = gather(folder)
    notes = [f"pairs of hosts that were measured: {len(times)}"] if times else []
    notes += [f"pairs of hosts that left nothing: {len(lost)}, such as {lost[0][0]} with {lost[0][1]}"] if lost else []
    return tuple(judge(times)), notes


def unsaid(folder: Path) -> str:
    """Say why pairs do not prove the links between hosts; an empty string where all have answered, and each host has partners enough."""
    (times, lost), least = gather(folder), rules.load().pairs.least
    if not times:
        return f"no pair of hosts answered, of {len(lost)}; .pairs in the folder has what each printed (launch.log)"
    if lost:
        return f"{len(lost)} of {len(lost) + len(times)} pairs left nothing, such as {lost[0][0]} with {lost[0][1]}"
    met = Counter(host for one in times for host in (one.first, one.second))
    if few := sorted(host for host, count in met.items() if count < least):
        return f"{len(few)} hosts met fewer than {least} partners, such as {few[0]}; add --rounds"
    return ""
