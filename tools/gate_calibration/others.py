"""What other people's tools say of the same seconds, by their own code: `asv compare`, `pytest-benchmark`, `pyperf compare_to`.

Each gets the samples of the base and those of the head as if they had been measured by it, with its own default threshold, or 5 %
where it has none. They were taken in turns, which flatters these tools: they themselves measure one side after the other.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from statistics import mean

from stackproof.base.errors import Refusal

Judge = Callable[[Sequence[float], Sequence[float]], bool]
_NEEDED = ("asv", "asv_runner", "pytest_benchmark", "pyperf")


def require() -> None:
    """Refuse where one of the tools is not installed."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise Refusal(
            f"{', '.join(missing)} are not installed here; use `nox -s gate-calibration`, whose environment has them"
        )


def asv_compare(base: Sequence[float], head: Sequence[float], factor: float = 1.1) -> bool:
    """Whether `asv compare` calls the head worse: by its default factor of 1.1, and if its statistics agree."""
    from asv.commands.compare import _is_result_better
    from asv_runner.statistics import compute_stats

    (before, stats), (after, others) = (compute_stats(list(samples), 1) for samples in (base, head))
    return bool(_is_result_better(before, after, (stats, list(base)), (others, list(head)), factor))


def pytest_benchmark(base: Sequence[float], head: Sequence[float], rule: str = "mean:5%") -> bool:
    """Whether `--benchmark-compare-fail=mean:5%` fails."""
    from pytest_benchmark.utils import parse_compare_fail

    return bool(parse_compare_fail(rule).fails({"mean": mean(head)}, {"mean": mean(base)}))


def pyperf(base: Sequence[float], head: Sequence[float], least: float = 0.0) -> bool:
    """Whether `pyperf compare_to` calls the head slower, with `--min-speed` in per cent where one is given."""
    import pyperf as tool
    from pyperf._compare import CompareData, CompareResult

    made = [
        CompareData(name, tool.Benchmark([tool.Run(list(samples), metadata={"name": "x"}, collect_metadata=False)]))
        for name, samples in (("base", base), ("head", head))
    ]
    found = CompareResult(made[0], made[1], min_speed=least or None)
    return bool(found.significant) and mean(head) > mean(base)


JUDGES: dict[str, Judge] = {
    "asv compare (1.1)": asv_compare,
    "pytest-benchmark mean:5%": pytest_benchmark,
    "pyperf compare_to": pyperf,
    "pyperf compare_to --min-speed 2": lambda base, head: pyperf(base, head, 2.0),
}
