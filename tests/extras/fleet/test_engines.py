"""What other engines are given: each host of the plan once, in words that no shell takes apart."""

from __future__ import annotations

import importlib.util
import json
import shlex
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.extras.fleet import engines, plan
from stackproof.extras.fleet.engines import PodTerms
from stackproof.stack import environments

PLAN = plan.make("My sweep: 1/2", "cuda", "full", ["n1", "n2.site.org", "n3"], seed=1)


def test_lines_for_ssh_name_every_host_once(tmp_path: Path) -> None:
    folder = tmp_path / "it's a folder"
    assert sorted(engines.hosts_file(PLAN).split()) == ["n1", "n2.site.org", "n3"]
    for line in engines.ssh_lines(PLAN, folder, "/opt/my python"):
        words = shlex.split(line)
        assert str(folder / "hosts.txt") in words
        remote = shlex.split(next(word for word in words if "stackproof" in word and " " in word and "fleet" in word))
        assert remote[:6] == ["/opt/my python", "-m", "stackproof", "fleet", "card", str(folder)]


def test_a_job_has_a_pod_for_each_host_and_no_two_on_one() -> None:
    found = json.loads(engines.manifest(PLAN, PodTerms("registry/x:1", "sweeps", {"nvidia.com/gpu": "8"}, "lab")))
    spec = found["spec"]
    assert (spec["completions"], spec["parallelism"], found["metadata"]["namespace"]) == (3, 3, "lab")
    pod = spec["template"]["spec"]
    wanted = "requiredDuringSchedulingIgnoredDuringExecution"
    (term,) = pod["affinity"]["nodeAffinity"][wanted]["nodeSelectorTerms"]
    assert sorted(term["matchExpressions"][0]["values"]) == ["n1", "n2.site.org", "n3"]
    (apart,) = pod["affinity"]["podAntiAffinity"][wanted]
    assert apart["labelSelector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    container = pod["containers"][0]
    assert container["command"][-2:] == ["--stack", "cuda"] and container["env"][0]["name"] == "NODE_NAME"
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "8"}


@pytest.mark.parametrize("folder", ["HOST", "the HOST HOST1 ones", "node-HOSTS"])
def test_a_folder_that_is_called_host_stays_as_it_is(folder: str) -> None:
    line = engines.ssh_lines(PLAN, Path("/shared") / folder, "python")[1]
    words = shlex.split(line.partition(" < ")[0])
    place = words[words.index("-I") + 1]
    sent = [word.replace(place, "n1") for word in words[words.index("-I") + 2 :]]
    assert sent[:5] == ["ssh", "-n", "-o", "BatchMode=yes", "n1"]
    assert shlex.split(sent[5])[5:] == [f"/shared/{folder}", "--stack", "cuda", "--host", "n1"]


def test_a_folder_with_the_word_of_clustershell_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "fleet",
        "plan",
        str(tmp_path / "%host"),
        "--stack",
        "cpu",
        "--hosts",
        "a",
        "--engine",
        "ssh",
        "--python",
        "python",
    ]
    assert cli.main(words) == 2
    assert "holds a '%'" in capsys.readouterr().err


def test_ssh_is_told_a_python_that_has_torch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(environments, "prepare", lambda stack, say: Path(f"/envs/{stack.name}/bin/python"))
    words = ["fleet", "plan", str(tmp_path / "a"), "--stack", "cpu", "--hosts", "a", "--engine", "ssh"]
    assert cli.main(words) == 0
    assert "/envs/cpu/bin/python -m stackproof fleet card" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong",
    [
        ("--namespace", "Lab"),
        ("--namespace", "a.b"),
        ("--namespace", "-a"),
        ("--claim", "a_b"),
        ("--claim", "x" * 254),
        ("--claim", ""),
    ],
)
def test_names_of_kubernetes_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: tuple[str, str]
) -> None:
    words = [
        "fleet",
        "plan",
        str(tmp_path / "a"),
        "--stack",
        "cpu",
        "--hosts",
        "a",
        "--engine",
        "kubernetes",
        "--image",
        "x",
    ]
    assert cli.main([*words, f"{wrong[0]}={wrong[1]}"]) == 2
    assert "RFC 1123" in capsys.readouterr().err and not (tmp_path / "a" / "plan.json").exists()


@pytest.mark.parametrize("name", ["My sweep: 1/2", "---", "x" * 200, "ünïcode", "a.b_c"])
def test_the_name_of_a_job_is_one(name: str) -> None:
    made = plan.make(name, "cpu", "tiny", ["n1"])
    label = json.loads(engines.manifest(made, PodTerms("x", "y", {})))["metadata"]["name"]
    assert (
        len(label) <= 63
        and label.isascii()
        and label[-1].isalnum()
        and set(label) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    )


def test_plan_says_what_to_type_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fleet", "plan", str(tmp_path / "a"), "--stack", "cpu", "--hosts", "n[1-3]"]
    assert cli.main(words) == 0
    assert f"nox -s cpu-fleet -- run {tmp_path / 'a'}" in capsys.readouterr().out
    assert plan.load(tmp_path / "a").profile == "tiny"
    words[2] = str(tmp_path / "b")
    assert cli.main([*words, "--engine", "ssh"]) == 0
    assert "clush" in capsys.readouterr().out and (tmp_path / "b" / "hosts.txt").is_file()
    words[2] = str(tmp_path / "c")
    assert cli.main([*words, "--engine", "kubernetes"]) == 2
    assert cli.main([*words, "--engine", "kubernetes", "--image", "x", "--resource", "amd.com/gpu"]) == 2
    assert cli.main([*words, "--engine", "kubernetes", "--image", "x", "--resource", "amd.com/gpu=8"]) == 0
    assert "kubectl apply -f" in capsys.readouterr().out and (tmp_path / "c" / "job.json").is_file()


def test_hosts_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("n1 # the first\n\n# none\nn[2-3]\n", encoding="utf-8")
    words = [
        "fleet",
        "plan",
        str(tmp_path / "a"),
        "--stack",
        "cpu",
        "--hosts-file",
        str(tmp_path / "hosts"),
        "--without",
        "smoke",
    ]
    assert cli.main(words) == 0
    made = plan.load(tmp_path / "a")
    assert sorted(made.hosts) == ["n1", "n2", "n3"] and made.without == ("smoke",)
