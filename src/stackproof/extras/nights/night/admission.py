"""Is a night admitted? What others did, and what slowed the card, may explain its figures better than any change does."""

from __future__ import annotations

from collections.abc import Iterator

from stackproof.api.base import matches
from stackproof.api.gate import Conditions, of
from stackproof.extras.nights.night.plan import AdmissionRules


def disturbances(seen: Conditions, rules: AdmissionRules, kind: str) -> list[str]:
    """Return a sentence for each thing that disturbed a night on this type of device; none where it is admitted."""
    return [*_load(seen, of(rules.load, kind)), *_card(seen, rules)]


def _load(seen: Conditions, limit: float) -> Iterator[str]:
    busy = [load for load in seen.loads if load > limit]
    if busy:
        yield (
            f"others used {max(busy):.0%} of the host's cores in {len(busy)} of {len(seen.loads)} launches ({limit:.0%} are allowed)"
        )


def _card(seen: Conditions, rules: AdmissionRules) -> Iterator[str]:
    launches = len(seen.loads)
    for reason, count in seen.throttled.items():
        if matches(reason, rules.throttled):
            yield f"the card was slowed in {count} of {launches} launches: {reason}"
    if rules.others:
        yield from (f"{other} used the card in {count} of {launches} launches" for other, count in seen.others.items())
