"""New points for the engine until time is up: what no row knows, each cause once, as code to paste and as a row of known issues."""

from __future__ import annotations

import datetime
import json
import random
import re
import time
from dataclasses import dataclass, field

import torch
from packaging.version import Version

from stackproof.base.errors import Refusal, suggestion
from stackproof.device.kinds import Device
from stackproof.operators import engine
from stackproof.operators.database import preserved
from stackproof.operators.relation import Relation, symptom, word
from stackproof.record.checks import CheckFailed
from stackproof.record.records import Figure

_ROW = """[[known]]
judge = "{judge}"
operators = {names}
says = {says}
dtypes = {dtypes}
text = "{text}"
torch = "=={torch}"
devices = ["{device}"]
link = "https://..."
reason = "..."
owner = "..."
expires = {expires}
"""
_DAYS = 180


@dataclass
class FailureCause:
    """A way in which relations fail: where it was seen first, in few numbers, and in which operators and dtypes."""

    judge: str
    sentence: str
    code: str
    text: str
    says: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    dtypes: set[str] = field(default_factory=set)

    def row(self, device: str) -> str:
        """Return the row that would excuse it."""
        names, dtypes, says = (json.dumps(sorted(values)) for values in (self.names, self.dtypes, self.says))
        return _ROW.format(
            judge=self.judge, names=names, says=says, dtypes=dtypes, text=self.text, device=device,
            torch=Version(torch.__version__).base_version, expires=datetime.date.today() + datetime.timedelta(_DAYS),
        )  # fmt: skip


_SEEN: set[tuple[str, ...]] = set()
"""Causes of this process."""


def _key(judge: str, name: str, relation: Relation, text: str) -> tuple[str, ...]:
    """Return what tells causes apart: an error's words are one cause in every operator, wrong numbers are one for each.

    Derivatives are held against each other: where one is wrong, all that are compared with it differ.
    """
    says = "" if judge == "derivatives" else re.sub(r"\d+", "", relation.says)
    return (judge, says, text, "" if text.startswith("raises") else name.partition(".")[0])


def cases(only: str) -> list[tuple[str, str]]:
    """Return the judges that draw points by a seed, each with an operator, that have these words in JUDGE-OPERATOR (Refusal: none has)."""
    known = [case for case in engine.cases() if case[0] not in engine.OWN]
    chosen = [case for case in known if only in "-".join(case)]
    if not chosen:
        near = suggestion(only, ("-".join(case) for case in known)) or suggestion(only, (name for _, name in known))
        raise Refusal(
            f"--case '{only}' is in no JUDGE-OPERATOR{near}; write for instance elementwise-exp, or exp alone"
        )
    return chosen


def check(seed: int, minutes: float, device: Device, figures: dict[str, Figure], only: str = "") -> None:
    """Ask relations of points drawn by a seed until the minutes are over.

    Raises:
        CheckFailed: relations do not hold that no row knows; the figures have code and a row for each cause.
    """
    end, seen, causes = time.monotonic() + 60 * minutes, dict[str, int](), dict[tuple[str, ...], FailureCause]()
    chosen = cases(only)
    random.Random(seed).shuffle(chosen)
    done = 0
    with preserved(device.torch), device.current():
        for judge, name in chosen:
            if time.monotonic() > end and seen.get("relations"):  # a pass has asked something
                break
            done += 1
            print(f"{judge}-{name} by seed {seed}", flush=True)  # noqa: T201 - the last words of a process that dies
            for point, relation, wrong in engine.faults(judge, name, device.torch, seed, seen):
                key = _key(judge, name, relation, text := symptom(wrong))
                if key in _SEEN - causes.keys() or engine.excuse(judge, point, relation, wrong):
                    continue
                if key not in causes:
                    _SEEN.add(key)
                    plain, message = relation.reduced(wrong)
                    sentence = f"{name} in {word(point.dtype)} on {device}, {relation.says}: {message}"
                    causes[key] = FailureCause(judge, sentence, plain.program(point.path, device.torch), text)
                causes[key].says.add(relation.says)
                causes[key].names.add(name)
                causes[key].dtypes.add(word(point.dtype))
    asked = f"{seen.get('relations', 0)} relations of {done} operators under a judge"
    figures |= {"seed": seed, "relations": seen.get("relations", 0), "cases": done}
    figures["summary"] = f"{asked}: none fails that no row knows"
    for number, cause in enumerate(causes.values(), 1):
        figures[f"cause {number}"] = f"# {cause.sentence}\n{cause.code}\n{cause.row(device.torch.type)}"
    if causes:
        sentences = "; ".join(cause.sentence for cause in list(causes.values())[:3])
        more = f"; and {len(causes) - 3} more" if len(causes) > 3 else ""
        raise CheckFailed(f"{asked}, {len(causes)} causes of failures that no row knows: {sentences}{more}")
