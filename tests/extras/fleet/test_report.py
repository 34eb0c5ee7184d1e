"""A judged fleet told: in a terminal, as a page, as JSON, for Prometheus, as a picture; with pseudonyms, and never as what is obeyed."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.fleet import judgement, picture, redact, report, sweep
from stackproof.extras.fleet.judgement import FleetJudgement
from stackproof.record.records import Verdict

from ..prometheus_text import parsed
from .making import KERNELS, SUBJECTS, MadeHost, edit, fleet

SECRET = b"k" * 32


@pytest.fixture
def judged(tmp_path: Path) -> FleetJudgement:
    """A fleet with one host of each kind."""
    odd = (
        MadeHost("slow1", slow={SUBJECTS[0]: 1.4}),
        MadeHost("wrong1", digests={KERNELS[0]: "0000000000000002"}),
        MadeHost("driver1", facts={"driver.nvidia-smi": "560"}),
    )
    folder = fleet(tmp_path, 12, *odd, silent=("dead1",))
    return sweep.judged(folder)


def test_the_gravest_stand_first_and_suspects_are_swept_again(judged: FleetJudgement) -> None:
    told = report.terminal(judged, "FOLDER")
    assert told.index("compute wrong") < told.index("wrong1:") < told.index("slow1:") < told.index("dead1:")
    assert [line.split()[2] for line in judged.drains()] == ["NodeName=slow1", "NodeName=wrong1"]
    assert "five in all at least: wrong1, slow1" in told
    assert report.markdown(judged).startswith("# ")


def test_a_judgement_with_duels_and_links_is_still_read(judged: FleetJudgement, tmp_path: Path) -> None:
    path = tmp_path / judgement.NAME
    text = judgement.as_json(judged).replace('"stack": "cpu"', '"stack": "cpu", "links": []')
    path.write_text(text.replace('"z":', '"duel": "open", "z":'), encoding="utf-8")
    assert '"duel"' in path.read_text() and '"links"' in path.read_text()
    assert judgement.read(path) == judged


def test_json_is_read_back_as_it_was(judged: FleetJudgement, tmp_path: Path) -> None:
    path = tmp_path / judgement.NAME
    path.write_text(judgement.as_json(judged), encoding="utf-8")
    assert judgement.read(path) == judged
    for text in ("{", "[]", '{"schema": "x"}', judgement.as_json(judged).replace('"z":', '"zz":')):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(Refusal):
            judgement.read(path)


def test_prometheus_has_every_host_and_card(judged: FleetJudgement) -> None:
    found = parsed(report.prometheus(judged))
    own = f'fleet="{judged.fleet}"'
    assert found[f'stackproof_fleet_hosts{{{own},standing="wrong"}}'] == 1
    assert found[f'stackproof_fleet_host{{{own},node="slow1",standing="slow"}}'] == 1
    assert found[f'stackproof_fleet_ratio{{{own},node="slow1",card="0",subject="{SUBJECTS[0]}"}}'] == pytest.approx(
        1.4, abs=0.02
    )


def test_the_picture_has_a_strip_a_subject_and_names_outliers(judged: FleetJudgement) -> None:
    root = ET.fromstring(picture.svg(judged))
    texts = [one.text or "" for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert set(SUBJECTS) <= set(texts)
    assert any(text.startswith(("slow1 +4", "slow1 +3")) for text in texts)
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None and title.text == judged.headline


def test_every_host_is_in_the_picture(judged: FleetJudgement) -> None:
    drawn = picture.svg(judged)
    titles = [one.text or "" for one in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}title")]
    for host in judged.hosts:
        assert f"{host.host}: {host.standing.value}" in titles
    assert "1 not reached" in drawn and "12 proved" in drawn


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_fleet_of_one_has_a_picture(tmp_path: Path, count: int) -> None:
    root = ET.fromstring(picture.svg(sweep.judged(fleet(tmp_path, count, silent=("gone",) if not count else ()))))
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) == max(count, 1)


def test_ten_thousand_hosts_are_one_small_picture(judged: FleetJudgement) -> None:
    many = tuple(dataclasses.replace(judged.hosts[0], host=f"m{number}") for number in range(10000))
    drawn = picture.svg(dataclasses.replace(judged, hosts=(*many, *judged.hosts)))
    assert len(drawn) < 400_000 and "slow1: slow" in drawn


def outputs(found: FleetJudgement) -> str:
    """Return all that is written of a judgement."""
    texts = (
        report.terminal(found),
        report.markdown(found),
        judgement.as_json(found),
        picture.svg(found),
        report.prometheus(found),
    )
    return "".join(texts).replace("\\", "")


def test_pseudonyms_are_stable_and_nobody_is_named(judged: FleetJudgement) -> None:
    hidden = redact.redacted(judged, SECRET)
    assert hidden == redact.redacted(judged, SECRET) != redact.redacted(judged, b"x" * 32)
    assert not [host.host for host in judged.hosts if host.host in outputs(hidden)]
    assert redact.pseudonym("slow1", SECRET) in outputs(hidden) and hidden.counts == judged.counts


@pytest.mark.parametrize(
    ("text", "gone", "stays"),
    [
        ("NODE02.cluster.local saw node02 at http://node03:80/x in /shared/node04/y", "node0 cluster.local", "saw"),
        ("/home/alice9/x of bob9@site.org at 10.1.2.3, fe80::1ff:fe23:4567:890a", "alice9 bob9 10.1.2.3 fe80", "~/x of"),
        ("GPU-8d9b2c11-aaaa-bbbb-cccc-1234567890ab AA-BB-CC-DD-EE-FF", "8d9b2c11 AA-BB", "GPU-<serial> <address>"),
        ("acme-sweep was slow", "acme", "was slow"),
        ("torch: 2.15.0 -> 2.14.0 at 12:30:45 in replay/0::product[x]", "!", "2.14.0 at 12:30:45 in replay/0::product[x]"),
        ("1 of 3 cards", "!", "1 of 3 cards"),
    ],
)  # fmt: skip
def test_sentences_name_nobody(tmp_path: Path, text: str, gone: str, stays: str) -> None:
    hosts = (MadeHost(name) for name in ("node01", "node02", "node03", "node04", "3", "gpu9.lab.org"))
    folder = fleet(tmp_path / "acme-sweep", 0, MadeHost("node00", verdict=Verdict.FAILED), *hosts)
    edit(
        folder, "node00", lambda made: next(one for one in made["checks"] if one["id"] == "doctor").update(reason=text)
    )
    hidden = redact.redacted(sweep.judged(folder), SECRET, sweep.names(folder))
    (reason,) = (one.reason for one in hidden.hosts if one.reason.startswith("doctor"))
    assert stays in reason and not [word for word in gone.split() if word in outputs(hidden)], reason
    assert all(host.host.startswith("host-") for host in hidden.hosts)


def test_the_key_is_private_and_made_once(tmp_path: Path) -> None:
    path = tmp_path / "own.key"
    first = redact.key(path)
    assert redact.key(path) == first and path.stat().st_mode & 0o077 == 0
    path.write_text("short")
    with pytest.raises(Refusal, match="no key of pseudonyms"):
        redact.key(path)


def test_a_reason_to_drain_cannot_hold_a_command(judged: FleetJudgement) -> None:
    hostile = 'gemm\'; rm -rf $(pwd) `id` "x" | & > <\n\x1b[31m'
    (slow,) = (host for host in judged.hosts if host.host == "slow1")
    words = dataclasses.replace(slow, reason=hostile).drain()
    assert len(words) == 5 and not set(words[-1]) & set("'\"`$;|&<>\n\x1b\\")
