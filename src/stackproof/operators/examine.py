"""One operator examined: each of its samples forward and backward on the device, against float64, as a check of a suite.

The CPU in the same dtype (the anchor of the fp64-anchored rule, see `numerics`) is computed only for results beyond the rule's
floor, and what rounding may do at all (`spread`) only beyond that; elsewhere both are taken as zero. Each operator ends in exactly
one outcome, so that nothing is skipped in silence.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

import torch
from torch.utils._pytree import tree_leaves

from stackproof.base import places
from stackproof.base.text import error_line
from stackproof.device.kinds import Device
from stackproof.device.numerics import Judgement
from stackproof.operators.compare import Exemption, exemptions, form_fault, judgements, multiplied, severity, word
from stackproof.operators.compute import Computed, compute, random_kernel
from stackproof.operators.database import REFERENCE, OpInfo, SampleInput, describe, preserved
from stackproof.operators.database import samples as make_samples
from stackproof.operators.relation import elements_of
from stackproof.operators.repro import code
from stackproof.operators.spread import alternatives, scaled_down, terms, untied
from stackproof.record.checks import CapabilityMissing, CheckFailed, NotApplicable
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64)
MOST_ELEMENTS = 200_000
"""A sample with more numbers is left out: two such samples of `grid_sampler_3d` take longer than all others together."""

# On a device where everything is wrong, the search for excuses must not take longer than the sweep.
_ENOUGH = 12


class Outcome(str, Enum):
    """How one operator ended; the order is from worst to best."""

    FAILED = "failed"
    ERROR = "error"
    NOT_APPLICABLE = "not applicable"
    FORM = "shape and dtype only"
    PASSED = "passed"

    @property
    def ok(self) -> bool:
        """Tell whether a stack may be proved with this outcome in its record."""
        return self not in (Outcome.FAILED, Outcome.ERROR)


@dataclass(frozen=True)
class SampleReport:
    """One sample that did not pass by value: one line to read, one line to repeat it, and the figures behind them."""

    outcome: Outcome
    elements: int
    sample: int
    sentence: str
    call: str
    judgement: Judgement | None = None


def possible(stack: Stack, dtype: torch.dtype) -> None:
    """End the check if the stack has no such precision; complex64 is there where float32 is, unless the stack says otherwise."""
    name, place = word(dtype), stack.definition
    if name in stack.missing:
        raise CapabilityMissing(f"{place}, missing.{name}: {stack.missing[name]}")
    if word(dtype.to_real()) not in stack.precisions:
        raise CapabilityMissing(f"{place}: precisions has no {word(dtype.to_real())}")


def check(
    name: str, op: OpInfo, device: Device, dtype: torch.dtype, figures: dict[str, Figure], samples: int | None = None
) -> None:
    """Examine the operator and end the check accordingly; the figures hold the code that repeats a failure."""
    with preserved(device.torch), device.current():
        seen = examine(name, op, device.torch, dtype, samples)
        figures |= seen.figures
        if seen.outcome is Outcome.NOT_APPLICABLE:
            raise NotApplicable(seen.reason)
        if not seen.outcome.ok:
            raise CheckFailed(seen.failure(figures))
    figures["summary"] = seen.summary
    if seen.exemption.compare == "values" and (reason := seen.exemption.reason):
        figures["row"] = f"{places.table('operators.toml')}: {reason}"
        figures["summary"] = f"{seen.summary}; by its row" + ("" if seen.left_out else f": {reason}")


def examine(name: str, op: OpInfo, device: torch.device, dtype: torch.dtype, samples: int | None) -> Examination:
    """Examine one operator; whatever it raises becomes its outcome."""
    seen = Examination(name, op, device, dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    if seen.exemption.compare == "nothing":
        seen.ended = Outcome.NOT_APPLICABLE, seen.exemption.reason
    elif dtype not in op.supported_dtypes(device.type):
        seen.ended = Outcome.NOT_APPLICABLE, f"the database lists no {word(dtype)} for {device.type}"
    elif not {dtype, wide} & set(op.supported_dtypes(REFERENCE.type)):
        nothing = f"the database lists no {word(dtype)} for the CPU: nothing to compare with"
        seen.ended = Outcome.NOT_APPLICABLE, nothing
    else:
        try:
            seen.examine_all(samples)
        except Exception as error:
            sentence = f"{name} in {word(dtype)} on {device}: making samples raises {error_line(error)}"
            seen.ended = Outcome.ERROR, sentence
    return seen


@dataclass
class Examination:
    """One operator under examination: `forward` and `backward` count samples, `findings` are those that did not pass by value.

    `conditioned` samples agree only as well as their own conditioning allows; `left_out` ones were not examined, each by its reason.
    """

    name: str
    op: OpInfo
    device: torch.device
    dtype: torch.dtype
    forward: int = 0
    backward: int = 0
    conditioned: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    worst: Judgement | None = None
    findings: list[SampleReport] = field(default_factory=list)
    ended: tuple[Outcome, str] | None = None
    """How it ended before any sample was made."""

    def __post_init__(self) -> None:
        self.exemption = exemptions().get((self.name, word(self.dtype)), Exemption())
        self.wants_backward = self.dtype in self.op.supported_backward_dtypes(self.device.type)

    @property
    def outcome(self) -> Outcome:
        """Return the worst finding's: a pass means that every sample was compared by value."""
        return self._end[0]

    @property
    def reason(self) -> str:
        """Say why it is no pass."""
        return self._end[1]

    @property
    def _end(self) -> tuple[Outcome, str]:
        if self.ended:
            return self.ended
        if self.findings:
            return self._smallest.outcome, self._smallest.sentence
        if self.forward == 0:
            none = f"the database makes no sample for {word(self.dtype)}"
            return Outcome.NOT_APPLICABLE, f"all samples left out: {self._why}" if self.left_out else none
        return (Outcome.PASSED, "") if self.worst else (Outcome.FORM, "all samples are empty")

    @property
    def _smallest(self) -> SampleReport:
        """The finding that decides: the worst outcome, and of these the sample with the fewest numbers."""
        order = list(Outcome)
        return min(self.findings, key=lambda one: (order.index(one.outcome), one.elements, one.sample))

    @property
    def _why(self) -> str:
        return "; ".join(f"{count}: {reason}" for reason, count in self.left_out.items())

    @property
    def figures(self) -> dict[str, Figure]:
        """Return counts, and the worst error with its bound."""
        counts: dict[str, Figure] = {
            "samples": self.forward,
            "samples backward": self.backward,
            "samples ill-conditioned": self.conditioned,
            "samples left out": self.left_out.total(),
            "compared": "values" if self.outcome is not Outcome.FORM else Outcome.FORM.value,
        }
        if self.left_out:
            counts["left out"] = self._why
        worst = self.worst
        return {**counts, "error": worst.error, "bound": worst.bound, "cpu": worst.anchor} if worst else counts

    @property
    def summary(self) -> str:
        """Say what was seen."""
        if self.outcome is Outcome.FORM:
            return f"{self.forward} samples agree in form; not in numbers: {self.reason}"
        backward = f", {self.backward} backward" if self.backward else ""
        hard = f"; {self.conditioned} ill-conditioned" if self.conditioned else ""
        less = f"; left out {self._why}" if self.left_out else ""
        worst = self.worst
        most = f"worst error {worst.error:.1e} of {worst.bound:.1e} allowed" if worst else "nothing to compare"
        return f"{self.forward} samples{backward}: {most}{hard}{less}"

    def failure(self, figures: dict[str, Figure]) -> str:
        """Return the sentence of the smallest failing sample, and put the code that repeats it into the figures."""
        if not self.findings:  # its samples cannot be made
            return self.reason
        found = self._smallest
        figures["call"], figures["repro"] = found.call, code(self.op, found, self.device, self.dtype)
        wrong = sum(not one.outcome.ok for one in self.findings)
        return (
            f"{found.sentence}; {wrong} of {max(self.forward, wrong)} samples; figure 'repro' is code that repeats it"
        )

    def examine_all(self, limit: int | None) -> None:
        """Examine samples until `limit` of them had numbers to compare (many lists begin with empty ones) or enough fail."""
        full = 0
        for index, sample in enumerate(make_samples(self.op, self.dtype, self.wants_backward)):
            if elements_of((sample.input, sample.args, sample.kwargs)) > MOST_ELEMENTS:
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
        size = elements_of((sample.input, sample.args, sample.kwargs))
        self.findings.append(SampleReport(outcome, size, index, sentence, call, judgement))


def _all_ok(found: dict[str, Judgement]) -> bool:
    return all(judgement.ok for judgement in found.values())


def _finite(computed: Computed) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in computed.values.values())
