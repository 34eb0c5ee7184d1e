"""Several cases in one launch: what all ranks refuse is a result, what one rank raises ends the launch at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from stackproof.base import places, toml
from stackproof.base.errors import Refusal
from stackproof.base.places import EXAMPLE
from stackproof.ddp import course
from stackproof.ddp.course import (
    TABLE,
    batches_of,
    curve,
    others,
    outcome,
    pictures,
    plan,
    scale_of,
    shard,
    single,
    steps_of,
    synchronised,
    whole,
)
from stackproof.device.devices import HOST
from stackproof.device.numerics import relative_error
from stackproof.project import offers, projects
from stackproof.ranks.rank import Board, Rank
from stackproof.record.outcomes import left_by
from stackproof.workloads import catalogue
from stackproof.workloads.catalogue import names

ARGUMENTS = {"workload": "classifier", "seed": 7, "all_reduce_mib": 0.25}


def fine(rank: Rank) -> dict[str, Any]:
    return {"answer": 42}


def broken(rank: Rank) -> dict[str, Any]:
    raise NotImplementedError("not for this device\nand more lines")


def outcomes(rank: Rank, cases: dict[str, course.Case]) -> dict[str, Any]:
    rank.arguments.update(outcomes=str(rank.folder), rows=[])
    course.conduct(rank, cases)
    found = left_by(rank.folder, rank.rank) or {}
    return {name: {key: value for key, value in one.items() if key != "row"} for name, one in found.items()}


def test_what_every_rank_refuses_does_not_end_the_others(alone: Rank) -> None:
    results = outcomes(alone, {"first": fine, "second": broken, "third": fine})
    assert {"error": "NotImplementedError: not for this device"} == results["second"]
    assert {"answer": 42} == results["first"] == results["third"]
    assert ["first", "second", "third"] == (alone.folder / "rank0.phases").read_text().split()


def test_what_one_rank_raises_ends_the_launch(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    together = Rank(0, 2, alone.device, "gloo", 0.1, {}, alone.folder)
    monkeypatch.setattr(course, "_PATIENCE_S", 0.2)
    with pytest.raises(NotImplementedError):
        outcomes(together, {"waits": broken})
    Board("done").put("end 1", "done")
    with pytest.raises(NotImplementedError):
        outcomes(together, {"done": broken})
    Board("too").put("end 1", "raised")
    assert "error" in outcomes(together, {"too": broken})["too"]


def test_tensors_are_kept_wide(alone: Rank) -> None:
    course.keep(alone, "case", {"weight": torch.ones(3, dtype=torch.bfloat16)})
    kept = torch.load(alone.folder / "case.rank0.pt", weights_only=True)
    assert torch.equal(torch.ones(3, dtype=torch.float64), kept["weight"])


CPU = torch.device("cpu")
SEED = 7


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
def test_shares_are_those_of_the_whole(world: int) -> None:
    course = plan().course("yolov8n")
    parts = [shard("yolov8n", CPU, torch.float32, SEED, rank, world).batches[0]["img"] for rank in range(world)]
    job = whole(course, CPU, torch.float32, SEED, world)
    assert world == len(job.batches)
    assert torch.equal(torch.cat(parts), torch.cat([batch["img"] for batch in job.batches]))
    assert all(len(part) >= 2 for part in parts)


def test_the_batch_grows_with_the_ranks() -> None:
    assert [1, 2, 4] == [scale_of(world) for world in (2, 4, 8)]


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
def test_the_mean_of_the_parts_is_the_gradient_of_the_whole(world: int) -> None:
    course = plan().course("classifier")
    exact = outcome(course, torch.float64, SEED, world).gradients
    parts = [shard("classifier", CPU, torch.float64, SEED, rank, world).observe().gradients for rank in range(world)]
    for name, gradient in exact.items():
        mean = torch.stack([part[name] for part in parts]).mean(0)
        assert relative_error(mean, gradient) < 1e-14


def test_the_curve_is_that_of_the_steps() -> None:
    course = plan().course("classifier")
    found = curve(course, torch.float32, SEED, 2)
    assert course.steps == len(found)
    assert found[-1] < course.falls_to * found[0]
    curve.cache_clear()
    assert torch.equal(found, curve(course, torch.float32, SEED, 2))


@pytest.mark.slow
def test_synchronised_statistics_are_those_of_the_global_batch() -> None:
    course = plan().course("yolov8n")
    found = synchronised(course, torch.float32, SEED, 2)
    job = whole(course, CPU, torch.float32, SEED, 2)
    given = job.model(torch.cat([batch["img"] for batch in job.batches]))
    losses = [job.evaluate(Given(given, rank), batch)[1] for rank, batch in enumerate(job.batches)]
    (sum(losses) / 2).backward()  # type: ignore[union-attr]
    together = {name: tensor.grad for name, tensor in job.model.named_parameters() if tensor.grad is not None}
    apart = outcome(course, torch.float32, SEED, 2).gradients
    assert found.keys() == together.keys() == apart.keys()
    assert max(relative_error(found[name], together[name]) for name in found) < 1e-3
    assert max(relative_error(found[name], apart[name]) for name in found) > 0.1


class Given(torch.nn.Module):
    """Answers with one rank's two pictures of predictions that were made before."""

    def __init__(self, given: dict[str, Any], rank: int) -> None:
        super().__init__()
        self.given, self.part = given, slice(2 * rank, 2 * rank + 2)

    def forward(self, _images: torch.Tensor) -> dict[str, Any]:
        heads = {name: self.given[name][self.part] for name in ("boxes", "scores")}
        return {**heads, "feats": [level[self.part] for level in self.given["feats"]]}


def changed(tmp_path: Path, old: str, new: str) -> Path:
    text = TABLE.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "convergence.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def test_the_table_names_workloads_that_exist() -> None:
    found = plan()
    assert {course.workload for course in found.courses} | {found.trial.workload} <= set(names())
    assert found.course("classifier").whole_batch
    assert not found.course("yolov8n").whole_batch


def test_workloads_of_others_have_a_course_where_they_ask_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert others.__wrapped__() == ()
    monkeypatch.setenv(places.PROJECT, str(EXAMPLE))
    projects.current.cache_clear()
    catalogue._known.cache_clear()
    known = catalogue.theirs()
    asked = offers.Offer(parts=("data-parallel",))
    monkeypatch.setattr(type(known["gru"].workload), "offer", asked)
    monkeypatch.setattr("stackproof.ddp.course.theirs", lambda: known)
    found = others.__wrapped__()
    monkeypatch.setattr("stackproof.ddp.course.others", lambda: found)
    assert [(course.workload, course.whole_batch) for course in found] == [("gru", False)]
    assert steps_of("gru") == found[0].steps and steps_of("classifier") == plan().course("classifier").steps
    projects.current.cache_clear()
    catalogue._known.cache_clear()


def test_too_few_seeds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"convergence.toml: 'equivalence.seeds' is 7; eight at least"):
        toml.kept(changed(tmp_path, "seeds = 16", "seeds = 7"), course.CoursePlan)()


def test_a_row_without_its_reason_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="reason' is missing"):
        toml.kept(changed(tmp_path, "reason =", "because ="), course.CoursePlan)()


@pytest.mark.parametrize("world", [2, 4])
def test_the_ranks_parts_of_a_step_are_its_batch(world: int) -> None:
    steps = list(zip(*(batches_of(world, 5, rank) for rank in range(world)), strict=True))
    batches = list(batches_of(world, 5))
    assert len(steps) == len(batches)
    for parts, batch in zip(steps, batches, strict=True):
        assert sorted(batch) == sorted(index for part in parts for index in part)
        assert len({len(part) for part in parts}) == 1


def test_an_epoch_has_every_picture_once() -> None:
    batches = list(batches_of(2, 5))
    first = [index for batch in batches[:4] for index in batch]
    assert list(range(pictures(2))) == sorted(first)
    assert batches[:4] != batches[4:8]


def test_a_sampler_deals_as_is_documented() -> None:
    assert [course.dealing(rank, 2, [4, 0, 3, 1, 2], False) for rank in (0, 1)] == [[4, 3, 2], [0, 1, 4]]
    assert [course.dealing(rank, 2, [4, 0, 3, 1, 2], True) for rank in (0, 1)] == [[4, 3], [0, 1]]
    assert course.dealing(3, 4, [0], False) == [0]
    for seed, deal in course.deals(3):
        for rank in range(3):
            found = list(course._dealt(rank, 3, seed, course.EPOCHS, **deal))
            assert found == course.documented(rank, 3, seed, **deal)
    assert len({tuple(order) for order in course.documented(0, 3, 7, 15, True, False)}) == course.EPOCHS


def test_a_seed_gives_one_loss() -> None:
    assert single(HOST, 5, 2) == single(HOST, 5, 2)
    assert single(HOST, 5, 2) != single(HOST, 6, 2)


def test_one_rank_keeps_all_and_steps_as_ddp_does(alone: Rank) -> None:
    assert {"share": 1.0} == course.cases(["classifier"])["sharded-classifier"](alone)
    replicated, sharded, gradients = (
        torch.load(alone.folder / f"{case}-classifier.rank0.pt", weights_only=True)
        for case in ("ddp-step", "sharded-step", "sharded")
    )
    assert replicated.keys() == sharded.keys() == gradients.keys()
    for name, after in sharded.items():
        assert torch.allclose(after, replicated[name], rtol=1e-6, atol=0)


def test_a_rank_returns_its_evidence(alone: Rank) -> None:
    evidence = course.run_smoke(alone)
    assert (course.steps_of("classifier"), 64) == (len(evidence["losses"]), len(evidence["parameters"]))
    assert not evidence["all_reduce"]["wrong"]
    assert all(spent > 0 for spent in evidence["all_reduce"]["seconds"])
    gradients = torch.load(alone.folder / "classifier.rank0.pt", weights_only=True)
    assert all(gradient.dtype is torch.float64 for gradient in gradients.values())


def test_the_same_seed_gives_the_same_bits(alone: Rank) -> None:
    assert course.run_smoke(alone)["parameters"] == course.run_smoke(alone)["parameters"]
