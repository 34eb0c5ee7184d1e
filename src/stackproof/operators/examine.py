"""One operator examined: each of its samples forward and backward on the device, against float64.

The CPU in the same dtype (the anchor of the fp64-anchored rule, see `numerics`) is computed only for results beyond the rule's
floor, and what rounding may do at all (`spread`) only beyond that; elsewhere both are taken as zero.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial

import torch
from torch.utils._pytree import tree_leaves

from stackproof.base.text import error_line
from stackproof.device.numerics import Judgement
from stackproof.operators.compare import (
    Exemption,
    Outcome,
    Result,
    SampleReport,
    exemptions,
    form_fault,
    judgements,
    multiplied,
    severity,
    smallest,
    word,
)
from stackproof.operators.compute import Computed, compute, random_kernel
from stackproof.operators.database import REFERENCE, OpInfo, SampleInput, describe
from stackproof.operators.database import samples as make_samples
from stackproof.operators.spread import alternatives, scaled_down, terms, untied

MOST_ELEMENTS = 200_000
"""A sample with more numbers is left out: two such samples of `grid_sampler_3d` take longer than all others together."""

# On a device where everything is wrong, the search for excuses must not take longer than the sweep.
_ENOUGH = 12


def examine(name: str, op: OpInfo, device: torch.device, dtype: torch.dtype, samples: int | None) -> Result:
    """Examine one operator; whatever it raises becomes its outcome."""
    exemption = exemptions().get((name, word(dtype)), Exemption())
    if exemption.compare == "nothing":
        return Result(name, Outcome.NOT_APPLICABLE, exemption.reason)
    if dtype not in op.supported_dtypes(device.type):
        return Result(name, Outcome.NOT_APPLICABLE, f"the database lists no {word(dtype)} for {device.type}")
    if not {dtype, _wide(dtype)} & set(op.supported_dtypes(REFERENCE.type)):
        return Result(
            name, Outcome.NOT_APPLICABLE, f"the database lists no {word(dtype)} for the CPU: nothing to compare with"
        )
    case = _Case(name, op, device, dtype, dtype in op.supported_backward_dtypes(device.type), exemption)
    try:
        case.examine_all(samples)
    except Exception as error:
        return case.stopped(f"making samples raises {error_line(error)}")
    return case.result()


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


@dataclass
class _Case:
    """One operator under examination: what it is run with, and what was found so far."""

    name: str
    op: OpInfo
    device: torch.device
    dtype: torch.dtype
    wants_backward: bool
    exemption: Exemption
    forward: int = 0
    backward: int = 0
    conditioned: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    worst: Judgement | None = None
    findings: list[SampleReport] = field(default_factory=list)

    def examine_all(self, limit: int | None) -> None:
        """Examine samples until `limit` of them had numbers to compare (many lists begin with empty ones) or enough fail."""
        full = 0
        for index, sample in enumerate(make_samples(self.op, self.dtype, self.wants_backward)):
            if elements(sample) > MOST_ELEMENTS:
                self.left_out[f"more than {MOST_ELEMENTS} numbers"] += 1
                continue
            full += self.examine(index, sample)
            if full == limit or sum(not finding.outcome.ok for finding in self.findings) >= _ENOUGH:
                return

    def examine(self, index: int, sample: SampleInput) -> bool:
        """Run one sample and note what is wrong; tell whether it had numbers to compare."""
        try:
            return self._compare(index, sample)
        except Exception as error:
            if self.exemption.refuses and self.exemption.refuses in str(error):
                self.left_out[self.exemption.reason] += 1
                return False
            self._note(index, sample, Outcome.ERROR, f"raises {error_line(error)}")
            return True

    def _compare(self, index: int, sample: SampleInput) -> bool:
        reference = self._run(sample, REFERENCE, wide=True)
        actual = self._run(sample, self.device)
        self.forward, self.backward = self.forward + 1, self.backward + (actual.gradients > 0)
        numbers = any(value.numel() for value in reference.values.values())
        wrong = form_fault(actual, reference, self.dtype, self._returns(sample), self.exemption.private)
        if wrong:
            self._note(index, sample, Outcome.FAILED, wrong)
        elif self.exemption.compare == "form":
            self._note(index, sample, Outcome.FORM, self.exemption.reason)
        elif numbers:
            self._judge(index, sample, actual, reference)
        return numbers

    def _judge(self, index: int, sample: SampleInput, actual: Computed, reference: Computed) -> None:
        what, worst = self._worst(sample, actual, reference)
        if not worst.ok and (again := self._unambiguous(sample)):
            what, worst = self._worst(again, self._run(again, self.device), self._run(again, REFERENCE, wide=True))
        if worst.ok:
            self.worst = max(filter(None, (self.worst, worst)), key=severity)
        else:
            self._disagree(index, sample, (actual, reference), what, worst)

    def _unambiguous(self, sample: SampleInput) -> SampleInput | None:
        """Return the sample so that the device has no choice left, if it has one that torch does not make."""
        if self.exemption.ties and not sample.kwargs.get("stable"):
            return untied(sample, self.dtype)
        return multiplied(sample) if self.exemption.factors else None

    def _worst(self, sample: SampleInput, actual: Computed, reference: Computed) -> tuple[str, Judgement]:
        """Judge by what is cheapest first: the floor alone, the CPU in the same dtype, what rounding may do at all."""
        judge = partial(judgements, actual, reference, dtype=self.dtype, exemption=self.exemption)
        found = judge(anchor=None)
        if not _all_ok(found):
            found = judge(anchor=(anchor := self._anchor(sample)))
            if not _all_ok(found):
                others = alternatives(self.op, sample, self.dtype, self.wants_backward)
                found = judge(anchor=anchor, others=others, terms=terms(self.op, sample, self.dtype))
                self.conditioned += _all_ok(found)
        return max(found.items(), key=lambda item: severity(item[1]))

    def _anchor(self, sample: SampleInput) -> Computed | None:
        """Return the CPU's result, or nothing where it has no kernel for a dtype that the device has one for.

        In float64 it is the reference itself, which shows no error: what it errs by in float32 is taken, scaled down.
        """
        try:
            if self.dtype.to_real() is torch.float64:
                exact = self._run(sample, REFERENCE, wide=True)
                return scaled_down(self.op, sample, exact, self.wants_backward)
            return self._run(sample, REFERENCE)
        except Exception:
            return None

    def _disagree(
        self, index: int, sample: SampleInput, got: tuple[Computed, Computed], what: str, worst: Judgement
    ) -> None:
        actual, reference = map(_finite, got)
        kernel = random_kernel(self.op, sample, self.dtype)
        if kernel and (actual or not reference):
            self._note(index, sample, Outcome.FORM, f"{kernel} draws random numbers")
        else:
            self.worst = max(filter(None, (self.worst, worst)), key=severity)
            self._note(index, sample, Outcome.FAILED, worst.sentence(what), worst)

    def _returns(self, sample: SampleInput) -> tuple[str, ...]:
        leaves = tree_leaves((sample.args, dict(sample.kwargs)))
        asked = any(getattr(leaf, "dtype", leaf) is torch.float64 for leaf in leaves)
        return (*self.exemption.returns, "float64") if asked else self.exemption.returns

    def _run(self, sample: SampleInput, device: torch.device, wide: bool = False) -> Computed:
        return compute(self.op, sample, device, self.dtype, self.wants_backward, wide, host=self.exemption.host)

    def _note(
        self, index: int, sample: SampleInput, outcome: Outcome, what: str, judgement: Judgement | None = None
    ) -> None:
        sentence = f"{self.name} sample {index} in {word(self.dtype)} on {self.device}: {what}"
        call = describe(self.op, sample)
        self.findings.append(SampleReport(index, outcome, sentence, call, elements(sample), judgement))

    def result(self) -> Result:
        """Sum up: the worst finding decides, so that a pass means that every sample was compared by value."""
        if self.findings:
            first = smallest(self.findings)
            return self._result(first.outcome, first.sentence)
        if self.forward == 0:
            none = f"the database makes no sample for {word(self.dtype)}"
            return self._result(Outcome.NOT_APPLICABLE, f"all samples left out: {self._why}" if self.left_out else none)
        return self._result(Outcome.PASSED, "") if self.worst else self._result(Outcome.FORM, "all samples are empty")

    def stopped(self, reason: str) -> Result:
        """Sum up an operator whose samples cannot be made."""
        return self._result(Outcome.ERROR, reason)

    def _result(self, outcome: Outcome, reason: str) -> Result:
        counts = (self.conditioned, self.left_out.total(), self._why)
        return Result(
            self.name, outcome, reason, self.forward, self.backward, self.worst, tuple(self.findings), *counts
        )

    @property
    def _why(self) -> str:
        return "; ".join(f"{count}: {reason}" for reason, count in self.left_out.items())


def elements(sample: SampleInput) -> int:
    """Return how many numbers a sample's tensors hold."""
    leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
    return sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor))


def _all_ok(found: dict[str, Judgement]) -> bool:
    return all(judgement.ok for judgement in found.values())


def _finite(computed: Computed) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in computed.values.values())
