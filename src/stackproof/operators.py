"""The operator sweep: every entry of torch's operator database, forward and backward, on a device against float64 on the CPU.

Each operator ends in exactly one outcome, so that the counts add up to the size of the database and nothing is skipped in silence.
The CPU in the same dtype (the anchor of the fp64-anchored rule, see `numerics`) is computed only for results beyond the rule's floor;
for all others the anchor is taken as zero, which makes the bound tighter, not looser.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache

import torch
from torch.utils._pytree import tree_leaves

from . import ROOT
from .errors import Refusal, suggestion
from .numerics import Judgement, relative_error, rule
from .opdatabase import (
    REFERENCE,
    Computed,
    OpInfo,
    SampleInput,
    compute,
    describe,
    load,
    preserved,
    random_kernel,
    samples as make_samples,
)
from .tables import Table

Progress = Callable[[int, int, str], None]


class Outcome(str, Enum):
    """How one operator ended; the order is from worst to best."""

    FAILED = "failed"
    ERROR = "error"
    NOT_RUN = "not run"
    NOT_APPLICABLE = "not applicable"
    FORM = "shape and dtype only"
    PASSED = "passed"

    @property
    def ok(self) -> bool:
        """Tell whether a stack may be proved with this outcome in its record."""
        return self not in (Outcome.FAILED, Outcome.ERROR, Outcome.NOT_RUN)


@dataclass(frozen=True)
class Finding:
    """What one sample of an operator gave: one line to read, one line to repeat it, and the figures behind them."""

    sample: int
    outcome: Outcome
    sentence: str
    call: str
    elements: int
    judgement: Judgement | None = None


@dataclass(frozen=True)
class Result:
    """One operator's outcome; `forward` and `backward` count samples that were executed, `findings` those that did not pass."""

    operator: str
    outcome: Outcome
    reason: str
    forward: int = 0
    backward: int = 0
    worst: Judgement | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Sweep:
    """All results of one dtype on one device; `seconds` is wall time without the import of the database."""

    device: torch.device
    dtype: torch.dtype
    seconds: float
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        """Tell whether no operator failed, raised or was left out."""
        return all(result.outcome.ok for result in self.results)

    @property
    def counts(self) -> dict[Outcome, int]:
        """Return the number of operators by outcome; they add up to `len(results)`."""
        found = Counter(result.outcome for result in self.results)
        return {outcome: found[outcome] for outcome in Outcome}

    @property
    def executed(self) -> dict[str, int]:
        """Return how many operators ran forward and backward, and how many samples that were."""
        forward, backward = [r.forward for r in self.results], [r.backward for r in self.results]
        return {"forward": sum(map(bool, forward)), "backward": sum(map(bool, backward)), "samples": sum(forward)}

    def faults(self) -> list[Result]:
        """Return the operators for which the sweep is not ok."""
        return [result for result in self.results if not result.outcome.ok]


@dataclass(frozen=True)
class Exemption:
    """One row of `fixtures/operators.toml`: an operator to which the rule does not apply as it stands, and why."""

    compare: str
    cap: float | None
    returns: tuple[str, ...]
    reason: str


@cache
def exemptions() -> Mapping[tuple[str, str], Exemption]:
    """Load the rows by operator and dtype."""
    rows: dict[tuple[str, str], Exemption] = {}
    with Table.load(ROOT / "fixtures" / "operators.toml") as table:
        for entry in table.tables("operator"):
            with entry as row:
                names, dtypes = row.strings("names"), row.strings("dtypes")
                compare = row.take("compare", str, "values", ("values", "form", "nothing"))
                cap, returns = row.take("cap", float, 0.0), row.strings("returns", ())
                if (cap > 0 or bool(returns)) != (compare == "values"):
                    raise row.refuse("cap", "or 'returns' is what a row with compare = 'values' is for, and no other row may have it")
                exemption = Exemption(compare, cap or None, returns, row.take("reason", str))
                rows |= {(name, dtype): exemption for name in names for dtype in dtypes}
    return rows


def sweep(
    device: torch.device,
    dtype: torch.dtype,
    *,
    samples: int | None,
    budget_s: float = float("inf"),
    names: Iterable[str] | None = None,
    on_progress: Progress | None = None,
) -> Sweep:
    """Examine every operator (or those named) on at most `samples` samples each (all: None).

    Operators whose turn comes after `budget_s` seconds end as `NOT_RUN`, which is not ok. Raises `Refusal` for a name that the
    database does not have, or if the database cannot be imported.
    """
    chosen = _chosen(load(), names)
    started, results = time.monotonic(), []
    with preserved(device):
        for done, (name, op) in enumerate(chosen.items()):
            if on_progress:
                on_progress(done, len(chosen), name)
            late = time.monotonic() - started > budget_s
            overdue = Result(name, Outcome.NOT_RUN, f"the time budget of {budget_s:g} s was used up")
            results.append(overdue if late else examine(name, op, device, dtype, samples))
    return Sweep(device, dtype, time.monotonic() - started, tuple(results))


def _chosen(database: dict[str, OpInfo], names: Iterable[str] | None) -> dict[str, OpInfo]:
    wanted = list(database if names is None else names)
    for name in wanted:
        if name not in database:
            hint = suggestion(name, database)
            raise Refusal(f"operator {name!r} is not in torch {torch.__version__}'s operator database{hint}")
    return {name: database[name] for name in wanted}


def examine(name: str, op: OpInfo, device: torch.device, dtype: torch.dtype, samples: int | None) -> Result:
    """Examine one operator; whatever it raises becomes its outcome."""
    exemption = exemptions().get((name, _word(dtype)), Exemption("values", None, (), ""))
    if exemption.compare == "nothing":
        return Result(name, Outcome.NOT_APPLICABLE, exemption.reason)
    if dtype not in op.supported_dtypes(device.type):
        return Result(name, Outcome.NOT_APPLICABLE, f"the database lists no {_word(dtype)} for {device.type}")
    case = _Case(name, op, device, dtype, dtype in op.supported_backward_dtypes(device.type), exemption)
    try:
        case.examine_all(samples)
    except Exception as error:
        return case.stopped(f"making samples raises {_first_line(error)}")
    return case.result()


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
    worst: Judgement | None = None
    findings: list[Finding] = field(default_factory=list)

    def examine_all(self, limit: int | None) -> None:
        """Examine samples until `limit` of them had numbers to compare: the database begins many lists with empty ones."""
        full = 0
        for index, sample in enumerate(make_samples(self.op, self.dtype, self.wants_backward)):
            full += self.examine(index, sample)
            if full == limit:
                return

    def examine(self, index: int, sample: SampleInput) -> bool:
        """Run one sample and note what is wrong with it, if anything; tell whether it had numbers to compare."""
        try:
            return self._compare(index, sample)
        except Exception as error:
            self._note(index, sample, Outcome.ERROR, f"raises {_first_line(error)}")
            return True

    def _compare(self, index: int, sample: SampleInput) -> bool:
        reference = self._run(sample, REFERENCE, wide=True)
        actual = self._run(sample, self.device)
        self.forward, self.backward = self.forward + 1, self.backward + (actual.gradients > 0)
        wrong = form_fault(actual, reference, self.dtype, self._returns(sample))
        if wrong:
            self._note(index, sample, Outcome.FAILED, wrong)
        elif self.exemption.compare == "form":
            self._note(index, sample, Outcome.FORM, self.exemption.reason)
        else:
            self._judge(index, sample, actual, reference)
        return any(value.numel() for value in reference.values.values())

    def _judge(self, index: int, sample: SampleInput, actual: Computed, reference: Computed) -> None:
        found = judgements(actual, reference, None, self.dtype, self.exemption.cap)
        if not all(judgement.ok for judgement in found.values()):
            anchor = self._run(sample, REFERENCE)
            found = judgements(actual, reference, anchor, self.dtype, self.exemption.cap)
        what, worst = max(found.items(), key=lambda item: _severity(item[1]), default=("", None))
        if worst is not None and not worst.ok:
            self._disagree(index, sample, actual, what, worst)
        elif worst is not None and any(value.numel() for value in reference.values.values()):
            self.worst = max(filter(None, (self.worst, worst)), key=_severity)

    def _disagree(self, index: int, sample: SampleInput, actual: Computed, what: str, worst: Judgement) -> None:
        kernel = random_kernel(self.op, sample, self.dtype)
        finite = all(bool(torch.isfinite(value).all()) for value in actual.values.values())
        if kernel and finite:
            self._note(index, sample, Outcome.FORM, f"{kernel} draws random numbers")
        else:
            self.worst = max(filter(None, (self.worst, worst)), key=_severity)
            self._note(index, sample, Outcome.FAILED, worst.sentence(what), worst)

    def _returns(self, sample: SampleInput) -> tuple[str, ...]:
        leaves = tree_leaves((sample.args, dict(sample.kwargs)))
        asked = any(getattr(leaf, "dtype", leaf) is torch.float64 for leaf in leaves)
        return (*self.exemption.returns, "float64") if asked else self.exemption.returns

    def _run(self, sample: SampleInput, device: torch.device, wide: bool = False) -> Computed:
        return compute(self.op, sample, device, self.dtype, self.wants_backward, wide)

    def _note(self, index: int, sample: SampleInput, outcome: Outcome, what: str, judgement: Judgement | None = None) -> None:
        sentence = f"{self.name} sample {index} in {_word(self.dtype)} on {self.device}: {what}"
        elements = sum(leaf.numel() for leaf in _tensors(sample))
        self.findings.append(Finding(index, outcome, sentence, describe(self.op, sample), elements, judgement))

    def result(self) -> Result:
        """Sum up: the worst finding decides, so that a pass means that every sample was compared by value."""
        order = list(Outcome)
        first = min(self.findings, key=lambda finding: (order.index(finding.outcome), finding.sample), default=None)
        if first is not None:
            return self._result(first.outcome, first.sentence)
        if self.forward == 0:
            return self._result(Outcome.NOT_APPLICABLE, f"the database makes no sample for {_word(self.dtype)}")
        return self._result(Outcome.PASSED, "") if self.worst else self._result(Outcome.FORM, "all samples are empty")

    def stopped(self, reason: str) -> Result:
        """Sum up an operator whose samples cannot be made."""
        return self._result(Outcome.ERROR, reason)

    def _result(self, outcome: Outcome, reason: str) -> Result:
        return Result(self.name, outcome, reason, self.forward, self.backward, self.worst, tuple(self.findings))


def judgements(
    actual: Computed, reference: Computed, anchor: Computed | None, dtype: torch.dtype, cap: float | None
) -> dict[str, Judgement]:
    """Judge every output and gradient; without an anchor the bound is the rule's floor."""
    return {
        name: _judged(actual.values[name], value, anchor.values[name] if anchor else None, dtype, cap)
        for name, value in reference.values.items()
    }


def _judged(
    actual: torch.Tensor, reference: torch.Tensor, anchor: torch.Tensor | None, dtype: torch.dtype, cap: float | None
) -> Judgement:
    if not (reference.is_floating_point() or reference.is_complex()):
        error, exact = relative_error(actual, reference), cap or 0.0
        return Judgement(error <= exact, error, exact, 0.0)  # indices, counts and truth values are right or wrong
    error = _error(actual, reference, dtype)
    allowed = 0.0 if anchor is None else _error(anchor, reference, dtype)
    bound = rule().bound(allowed, dtype, cap)
    return Judgement(error <= bound, error, bound, allowed)


def _error(actual: torch.Tensor, reference: torch.Tensor, dtype: torch.dtype) -> float:
    """Return the relative error, or the absolute one if the reference is as good as zero.

    The database's numbers are of order one. A norm below what the rule's cap promises of such numbers is what is left after they cancel
    (the gradient of a normalised vector of one element) or underflow, and the reference itself has no correct digit in it.
    """
    actual, reference = (value.to_dense() if value.layout is not torch.strided else value for value in (actual, reference))
    error = relative_error(actual, reference)
    if error == float("inf"):  # a value beyond the dtype's range is rightly infinite
        reference = reference.to(actual.dtype)
        error = relative_error(actual, reference)
    if error in (0.0, float("inf")):
        return error
    norm = float(torch.linalg.vector_norm(reference.to(torch.complex128 if reference.is_complex() else torch.float64)))
    return error * norm if 0 < norm < rule().caps[dtype] else error


def form_fault(actual: Computed, reference: Computed, dtype: torch.dtype, returns: tuple[str, ...] = ()) -> str:
    """Return what is wrong with the number, shapes and dtypes of outputs and gradients, else an empty string.

    Outputs have the dtype of the reference's, narrowed as the inputs were, or one of `returns`.
    """
    if len(actual.outputs) != len(reference.outputs):
        return f"returns {len(actual.outputs)} outputs instead of {len(reference.outputs)}"
    pairs = zip(actual.outputs, reference.outputs, strict=True)
    wrong = next(filter(None, (_leaf_fault(left, right, dtype, returns) for left, right in pairs)), "")
    missing = sorted(reference.values.keys() ^ actual.values.keys())
    if wrong or not missing:
        return wrong
    return f"{missing[0]} is {'missing' if missing[0] in reference.values else 'unexpected'}"


def _leaf_fault(actual: object, reference: object, dtype: torch.dtype, returns: tuple[str, ...]) -> str:
    if not isinstance(actual, torch.Tensor) or not isinstance(reference, torch.Tensor):
        return "" if type(actual) is type(reference) else f"returns {type(actual).__name__} instead of {type(reference).__name__}"
    if actual.shape != reference.shape:
        return f"returns shape {tuple(actual.shape)} instead of {tuple(reference.shape)}"
    expected = _narrow(reference.dtype, dtype)
    right = actual.dtype is expected or _word(actual.dtype) in returns
    return "" if right else f"returns {_word(actual.dtype)} instead of {_word(expected)}"


def _narrow(wide: torch.dtype, dtype: torch.dtype) -> torch.dtype:
    if wide is torch.float64:
        return dtype
    return dtype.to_complex() if wide is torch.complex128 and dtype.is_floating_point else wide


def _tensors(sample: SampleInput) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves((sample.input, sample.args, sample.kwargs)) if isinstance(leaf, torch.Tensor)]


def _severity(judgement: Judgement) -> float:
    return judgement.error / judgement.bound if judgement.bound else judgement.error


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'without a message'}"
