"""Stands in for two live sides: noise of one per cent, and what the head is worse by."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

from rich.console import Console

from stackproof.gate import gate, plan
from stackproof.gate.gate import Comparison, GateProgress, conclude
from stackproof.gate.interleave import PROCESS, Launch, Lost, Observed, SideSpec
from stackproof.gate.variants import GateRequest
from stackproof.record.records import Record, Verdict

SUBJECTS = ("gemm", "lora")
ROW = {"kind": "gemm", "unit": "s/iteration", "version": "1"}
FACTS: dict[str, Any] = {"torch": "2.15.0", "verified on": "cpu", "devices": 1, "cpu.name": "Some CPU"}
NOTHING: dict[str, Any] = {"reading": {}, "throttled": [], "others": []}


SILENT = GateProgress(Console(quiet=True), 0.0)


class Sides:
    """Two sides as a table says.

    `slower`: share by which the head's time is longer; `memory`: factor of its peak; `operators`: what it dispatches, of ten;
    `facts`: of the head; `lost`: subjects that end, with side, verdict and reason; `has`: the subjects of base and head;
    `noise`: standard deviation of the logarithm of a time; `drops`: quantities that the head does not tell;
    `asks`: what subjects ask of the gate, by name;
    `exact`: whether anything exact is told;
    `loss` and `steps`: what the head computes and does, of 2.0 and 100; `readings`: what the vendor's tool says, a reading a launch.
    """

    def __init__(self, slower: float = 0.0, memory: float = 1.0, operators: int = 10, **rest: Any) -> None:
        self.slower, self.memory, self.operators, self.rest = slower, memory, operators, rest
        self.dice = random.Random(4)
        self.asked: list[tuple[str, ...]] = []

    def handshake(self, specs: Any, *_: Any) -> dict[str, Any]:
        """Return what the sides say of themselves."""
        base, head = self.rest.get("has", (SUBJECTS, SUBJECTS))
        found = {
            "base": {"facts": dict(FACTS), "subjects": self._rows(base)},
            "head": {"facts": {**FACTS, **self.rest.get("facts", {})}, "subjects": self._rows(head)},
        }
        return {spec.name: found[spec.name] for spec in specs}

    def _rows(self, names: tuple[str, ...]) -> dict[str, Any]:
        return {name: {**ROW, **self.rest.get("asks", {}).get(name, {})} for name in names}

    def launch(self, specs: Any, subjects: tuple[str, ...], terms: Any, *_: Any) -> tuple[Launch, list[Lost]]:
        """Return what a launch of these sides sees."""
        number = len(self.asked)
        self.asked.append(tuple(subjects))
        found, lost, names = Launch(), list[Lost](), [spec.name for spec in specs]
        readings = self.rest.get("readings")
        found.conditions = [{**NOTHING, "reading": readings[number]} if readings else NOTHING]
        found.seen[PROCESS] = {name: Observed(quantities={"start-up": 5 * self._noisy()}) for name in names}
        for subject in subjects:
            if subject in self.rest.get("lost", {}):
                lost.append(Lost(subject, *self.rest["lost"][subject]))
            else:
                found.seen[subject] = sides = {name: self._seen(name == "head") for name in names}
                if not terms.plan.design.rounds:
                    for one in sides.values():
                        one.blocks.clear()
                if sides["base"].counters == sides["head"].counters:
                    terms.equal_counts.add(subject)
        return found, lost

    def _noisy(self) -> float:
        return math.exp(self.dice.gauss(0, self.rest.get("noise", 0.01)))

    def _seen(self, head: bool) -> Observed:
        factor = 1 + self.slower * head
        quantities = {"peak-memory": 1000.0 * (self.memory if head else 1.0)}
        dropped, exact = self.rest.get("drops", ()) if head else (), self.rest.get("exact", True)
        counters = {"operators": self.operators if head else 10, "allocations": 4}
        return Observed(
            [factor * self._noisy() for _ in range(8)],
            {"iteration": 1.0},
            quantities={name: value for name, value in quantities.items() if name not in dropped},
            counters={name: value for name, value in counters.items() if name not in dropped} if exact else {},
            proved="a proof",
            computed=computed(self.rest.get("loss", 2.0) if head else 2.0) if exact else {},
            units={"optimiser steps": self.rest.get("steps", 100) if head else 100} if exact else {},
        )


def computed(loss: float) -> dict[str, Any]:
    """Return the fingerprint of a side that has this loss and nothing else."""
    told = {"shape": [], "digest": str(loss), "norm": loss, "sketch": [loss] * 8}
    return {"settings": {}, "worth": {"iteration": 1.0}, "dtype": "float32", "groups": {"loss": {"loss": told}}}


def specs(*names: str) -> tuple[SideSpec, ...]:
    """Return specs that nobody sits in."""
    return tuple(SideSpec(name, Path(), Path(), {}, "cpu", False, "fast", "") for name in names)


def comparison(**asked: Any) -> Comparison:
    """Return what is asked of a gate of five minutes, with some of it changed."""
    request = GateRequest(**{"minutes": 5.0, **asked})
    declared = plan.load().untimed() if request.exact else plan.load()
    return Comparison(request, specs("base", "head"), "tiny", "cpu", declared)


def judged(sides: Sides, monkeypatch: Any, folder: Path, **changes: Any) -> Record:
    """Run a gate over the stand-ins and return its record."""
    monkeypatch.setattr(gate, "launch", sides.launch)
    monkeypatch.setattr(gate, "handshake", sides.handshake)
    outcome = gate.compare(comparison(**changes), folder, SILENT)
    told = {"base": "main", "head": "x", "method": "m"}
    record = Record("gate", "cpu", "2026-01-01T00:00:00.000+00:00", provenance=dict(told))
    conclude(outcome, record)
    record.provenance |= told
    return record


def red(record: Record) -> dict[str, str]:
    """Return the checks that are not good, with their reasons."""
    return {check.id: check.reason for check in record.checks if check.verdict.exit_code}


__all__ = ["SILENT", "SUBJECTS", "Sides", "Verdict", "comparison", "judged", "red", "specs"]
