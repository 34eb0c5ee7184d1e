"""Where a run says a metric: patterns, tqdm's rates, JSON in the output or a file, steps of a callback."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.jobs import metrics
from stackproof.jobs.metrics import Metric, MetricMissing, Output


def _output(tmp_path: Path, text: str = "", before: dict[Path, int] | None = None) -> Output:
    (tmp_path / "log").write_text(text, encoding="utf-8")
    return Output(tmp_path / "log", tmp_path, tmp_path / "steps", 2.5, before or {})


def _one(metric: Metric, output: Output) -> float:
    return metric.value(metric.values(output))


@pytest.mark.parametrize(
    ("text", "output", "value"),
    [
        (r"loss: ([\d.]+)", "loss: 3\nloss: 1\nloss: 2\n", 2.0),
        (r"throughput=(\S+)", "throughput=1,234.5", 1234.5),
        ("it/s", "10%| | 1/9 [00:01, 3.0it/s]\r100%| | 9/9 [00:02, 4.50it/s]\n", 4.5),
        ("it/s", "100%| | 9/9 [00:02, 2.00s/it]\n", 0.5),
        ("it/s", "100%| | 9/9 [00:02, 1.5kit/s]\n", 1500.0),
        ("tokens/s", "speed 12.5 tokens/s\n", 12.5),
        ("$.train.samples_per_second", '{"a": 1}\nnoise\n{"train": {"samples_per_second": 7}}\nend', 7.0),
        ("$.runs[-1]['speed']", 'x\n{"runs": [{"speed": 1}, {"speed": 2}]}', 2.0),
        ("$.train_runtime", "{'train_runtime': 1.5, 'epoch': 1.0}\n", 1.5),
        ("time", "", 2.5),
    ],
)
def test_a_metric_is_read(text: str, output: str, value: float, tmp_path: Path) -> None:
    assert _one(metrics.parse(text, "lower"), _output(tmp_path, output)) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "output", "said"),
    [
        (r"loss: ([\d.]+)", "nothing here", "the output has no 'loss: "),
        (r"loss: (\S+)", "loss: abc", "'abc', which is no number"),
        ("it/s", "3 items/s", "the output has no 'it/s'; docs/your-command.md"),
        ("$.a", '{"b": 1}', "has no '$.a'"),
        ("$.a", '{"a": [1]}', "which is no number"),
        ("out.json:$.a", "", "out.json cannot be read"),
        ("steps", "", "has no 'steps'"),
    ],
)
def test_what_is_not_there_is_said(text: str, output: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(MetricMissing) as missing:
        metrics.parse(text, "lower").values(_output(tmp_path, output))
    assert said in str(missing.value)


def test_a_file_of_an_earlier_run_is_not_this_runs(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text('{"a": 3}', encoding="utf-8")
    metric = metrics.parse("out.json:$.a", "lower")
    assert _one(metric, _output(tmp_path)) == 3.0
    with pytest.raises(MetricMissing, match="not written by this run"):
        metric.values(_output(tmp_path, before={path: path.stat().st_mtime_ns}))


def test_steps_are_the_callbacks_without_the_first(tmp_path: Path) -> None:
    output = _output(tmp_path)
    output.steps.write_text('{"seconds": 9}\n{"seconds": 1, "loss": 2}\n{"seconds": 2}\n{"seco', encoding="utf-8")
    assert metrics.parse("steps").values(output) == [1, 2]
    assert [row.get("loss") for row in metrics.rows_of(output.steps)] == [None, 2, None]


@pytest.mark.parametrize(
    ("text", "higher"),
    [
        ("it/s", True),
        ("$.train_samples_per_second", True),
        ("$.train_runtime", False),
        (r"(?P<accuracy>\S+)", True),
        (r"eval loss = (\S+)", False),
        (r"latency \(ms\): (\S+)", False),
        ("$.speed", True),
        ("steps", False),
    ],
)
def test_the_table_knows_which_way_is_better(text: str, higher: bool) -> None:
    assert metrics.parse(text).higher is higher


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r"widgets (\d+)", "--metric-higher or --metric-lower"),
        (r"loss: [\d.]+", "has 0 groups"),
        (r"(loss): (\d+)", "has 2 groups"),
        ("loss: ([", "no regular expression"),
        ("$.a..b", "no path into JSON"),
        ("$x", "no path into JSON"),
    ],
)
def test_slips_are_refused(text: str, said: str) -> None:
    with pytest.raises(Refusal) as refused:
        metrics.parse(text)
    assert said in str(refused.value)
    assert metrics.parse(r"widgets (\d+)", "higher").higher
