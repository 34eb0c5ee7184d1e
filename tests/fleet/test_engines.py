"""What other engines are given: each host of the plan once, in words that no shell takes apart."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.fleet import engines, plan
from stackproof.fleet.engines import PodTerms

PLAN = plan.make("My sweep: 1/2", "cuda", "full", ["n1", "n2.site.org", "n3"], seed=1)


def test_lines_for_ssh_name_every_host_once(tmp_path: Path) -> None:
    """Hosts lie in a file; a folder with blanks and quotes stays one word, on this host and on the others."""
    folder = tmp_path / "it's a folder"
    assert sorted(engines.hosts_file(PLAN).split()) == ["n1", "n2.site.org", "n3"]
    for line in engines.ssh_lines(PLAN, folder, "/opt/my python"):
        words = shlex.split(line)
        assert str(folder / "hosts.txt") in words
        remote = shlex.split(next(word for word in words if "stackproof" in word and " " in word and "fleet" in word))
        assert remote[:6] == ["/opt/my python", "-m", "stackproof", "fleet", "card", str(folder)]


def test_a_job_has_a_pod_for_each_host_and_no_two_on_one() -> None:
    """As many completions as hosts, apart from each other, on these hosts only, each told where it is."""
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


@pytest.mark.parametrize("name", ["My sweep: 1/2", "---", "x" * 200, "ünïcode", "a.b_c"])
def test_the_name_of_a_job_is_one(name: str) -> None:
    """Whatever the folder is called, it is a DNS label of Kubernetes."""
    made = plan.make(name, "cpu", "tiny", ["n1"])
    label = json.loads(engines.manifest(made, PodTerms("x", "y", {})))["metadata"]["name"]
    assert (
        len(label) <= 63
        and label.isascii()
        and label[-1].isalnum()
        and set(label) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    )


def test_plan_says_what_to_type_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For each engine; the files that it needs lie in the folder."""
    words = ["fleet", "plan", str(tmp_path / "a"), "--stack", "cpu", "--hosts", "n[1-3]"]
    assert cli.main(words) == 0
    assert f"stackproof fleet run {tmp_path / 'a'}" in capsys.readouterr().out
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
    """A name a line, or a list, with remarks."""
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
