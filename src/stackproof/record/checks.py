"""What a check may say: it fails with one sentence, hangs, cannot decide, or lacks a capability by a rule from data."""

from __future__ import annotations

from stackproof.record.records import Verdict


class CheckEnded(Exception):  # noqa: N818 - not every end is an error
    """A check that ends in another verdict than passed; the message is its reason."""

    verdict = Verdict.FAILED


class CheckFailed(CheckEnded):
    """The stack is wrong."""


class CheckHung(CheckEnded):
    """Something did not end by its deadline and was ended."""

    verdict = Verdict.HUNG


class CheckCrashed(CheckEnded):
    """A process of the check died."""

    verdict = Verdict.CRASHED


class CheckInconclusive(CheckEnded):
    """The figures do not allow a verdict."""

    verdict = Verdict.INCONCLUSIVE


class CapabilityMissing(CheckEnded):
    """A rule in data says that the stack cannot do this; the message names the rule and its reason."""

    verdict = Verdict.SKIPPED


class NotApplicable(CheckEnded):
    """The question makes no sense here, whatever the stack can do; the message says why."""

    verdict = Verdict.NOT_APPLICABLE


def require(holds: bool, sentence: str) -> None:
    if isinstance(holds, (str, float, tuple, list)):  # "False", nan and (False, "words") are all true
        raise TypeError(
            f"require was given a {type(holds).__name__} where it takes a truth value; write the comparison"
        )
    if not holds:
        raise CheckFailed(sentence)
