"""A judged fleet as figures for Prometheus, for the textfile collector of a node exporter."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from stackproof.api.base import Gauge, Labels, exposition
from stackproof.extras.fleet.judgement import FleetJudgement, GroupTold, Standing

HELP = {
    "fleet_hosts": "Hosts by what they are called.",
    "fleet_host": "1 for what a host is called, 0 for what it is not.",
    "fleet_ratio": "Seconds of a card over the median's of its group; above 1 is slower.",
    "fleet_products": "Products that a group replayed.",
    "fleet_timestamp_seconds": "When the fleet was judged.",
}


def text(found: FleetJudgement) -> str:
    """Return the whole file."""
    return exposition.text(HELP, _samples(found))


def _samples(found: FleetJudgement) -> Iterator[Gauge]:
    own = {"fleet": found.fleet}
    yield Gauge("fleet_timestamp_seconds", own, datetime.fromisoformat(found.judged).timestamp())
    for word in Standing:
        yield Gauge("fleet_hosts", {**own, "standing": word.value}, found.counts.get(word, 0))
    for host in found.hosts:
        of = {**own, "node": host.host}
        for word in Standing:
            yield Gauge("fleet_host", {**of, "standing": word.value}, host.standing is word)
    for group in found.groups:
        yield from _group(group, own)


def _group(group: GroupTold, own: Labels) -> Iterator[Gauge]:
    yield Gauge("fleet_products", {**own, "group": group.name}, group.products)
    for strip in group.strips:
        for card, ratio in zip(group.cards, strip.ratios, strict=False):
            if ratio:
                node, _, number = card.partition(":")
                labels = {**own, "node": node, "card": number or "0", "subject": strip.subject}
                yield Gauge("fleet_ratio", labels, ratio)
