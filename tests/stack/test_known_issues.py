"""Known issues: they excuse what they are about, for their versions and time, and complain when they rot."""

from __future__ import annotations

import datetime
import os
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.record.records import Check, Record, Verdict
from stackproof.stack import known_issues, stacks
from stackproof.stack.known_issues import KnownIssue
from stackproof.stack.stacks import Stack

LAST = datetime.date.today() + datetime.timedelta(days=300)
ROW = """
[[issue]]
test = "operators/sweep::agrees[[]foo-*"
most = 9
torch = ">=2.8,<2.9"
link = "https://github.com/intel/torch-xpu-ops/issues/1"
owner = "somebody"
says = "error [0-9]"
expires = LAST
reason = "foo is wrong"
""".replace("LAST", str(LAST))
FAILED = Check("operators/sweep::agrees[foo-float32]", Verdict.FAILED, "error 2", 0.1)


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    folder = tmp_path / "xpu"
    folder.mkdir()
    return replace(stacks.load("xpu"), folder=folder)


def rows(stack: Stack, text: str = ROW) -> tuple[KnownIssue, ...]:
    (stack.folder / "known_issues.toml").write_text(text, "utf-8", "surrogateescape")
    return tuple(row for row in known_issues.load(stack) if row.file.parent == stack.folder)


def test_rows_of_a_backend_follow_it_to_every_stack_that_has_it(stack: Stack) -> None:
    other = replace(stack, backend="gloo", backends=("gloo",))
    found = {
        backend: {row.file.name for row in known_issues.load(one)} for backend, one in (("ccl", stack), ("gloo", other))
    }
    assert found == {"ccl": {"ccl.toml", "gloo.toml"}, "gloo": {"gloo.toml"}}


def made(*checks: Check, torch: str = "2.8.0+xpu") -> Record:
    return Record("verify", "xpu", "2026-01-01T00:00:00+00:00", provenance={"torch": torch}, checks=list(checks))


def complaints(found: tuple[KnownIssue, ...], record: Record, partial: bool = False) -> list[str]:
    return [check.reason for check in known_issues.verdicts(found, record, ("operators",), partial)]


def test_a_failure_that_is_known_is_excused_and_keeps_its_words(stack: Stack) -> None:
    excused = known_issues.excuse(rows(stack), FAILED, made())
    assert excused.verdict is Verdict.KNOWN_ISSUE
    for words in ("foo is wrong", "issues/1", str(LAST), "it said: error 2"):
        assert words in excused.reason


def test_a_row_excuses_what_it_names_and_no_other_failure_of_the_check(stack: Stack) -> None:
    found = rows(stack)
    assert known_issues.excuse(found, FAILED, made()).verdict is Verdict.KNOWN_ISSUE
    other = known_issues.excuse(found, replace(FAILED, reason="wrote beside the tensor"), made())
    assert other.verdict is Verdict.FAILED and "knows another failure of it" in other.reason
    both = rows(stack, ROW.replace("error [0-9]", "beside the tensor") + ROW)
    assert known_issues.excuse(both, FAILED, made()).verdict is Verdict.KNOWN_ISSUE


def test_a_row_is_named_however_it_is_written(stack: Stack) -> None:
    inline = f"issue = [{{ {', '.join(ROW.splitlines()[2:])} }}]"
    for text, place in ((ROW.replace("[[issue]]", "[[ issue ]] # ours"), "2"), (inline, "issue[0]")):
        assert rows(stack, text)[0].place.endswith(f"known_issues.toml:{place}")
    (stack.folder / "known_issues.toml").unlink()
    os.mkfifo(stack.folder / "known_issues.toml")
    with pytest.raises(Refusal, match="is a named pipe"):
        known_issues.load(stack)


@pytest.mark.parametrize("verdict", [Verdict.CRASHED, Verdict.HUNG])
def test_crashes_and_hangs_can_be_known(stack: Stack, verdict: Verdict) -> None:
    assert known_issues.excuse(rows(stack), replace(FAILED, verdict=verdict), made()).verdict is Verdict.KNOWN_ISSUE


@pytest.mark.parametrize("verdict", [Verdict.PASSED, Verdict.SKIPPED, Verdict.INTERRUPTED, Verdict.INCONCLUSIVE])
def test_nothing_else_is_touched(stack: Stack, verdict: Verdict) -> None:
    check = replace(FAILED, verdict=verdict)
    assert known_issues.excuse(rows(stack), check, made()) is check


@pytest.mark.parametrize("torch", ["2.7.1+xpu", "2.9.0", "2.15.0"])
def test_other_versions_are_not_excused(stack: Stack, torch: str) -> None:
    found = rows(stack)
    assert known_issues.excuse(found, FAILED, made(torch=torch)) is FAILED
    assert complaints(found, made(torch=torch)) == []


def test_the_driver_can_limit_a_row(stack: Stack) -> None:
    found = rows(stack, ROW.replace('torch = ">=2.8,<2.9"', 'driver = "<1.7"'))
    old, new = made(), made()
    old.provenance["xpu:0.properties.driver_version"] = "1.6.33578"
    new.provenance["driver./sys/module/xe/version"] = "1.1.0"
    new.provenance["xpu:0.properties.driver_version"] = "1.7.1"
    assert known_issues.excuse(found, FAILED, old).verdict is Verdict.KNOWN_ISSUE
    assert known_issues.excuse(found, FAILED, made()).verdict is Verdict.KNOWN_ISSUE
    assert known_issues.excuse(found, FAILED, new) is FAILED


def test_a_row_that_starts_to_pass_fails_the_run(stack: Stack) -> None:
    (sentence,) = complaints(rows(stack), made(replace(FAILED, verdict=Verdict.PASSED)))
    assert f"passes now: delete the row at {stack.folder}/known_issues.toml:2 (somebody owns it)" in sentence


def test_a_row_that_still_holds_says_nothing(stack: Stack) -> None:
    record = made(
        replace(FAILED, verdict=Verdict.KNOWN_ISSUE), replace(FAILED, id="operators/sweep::agrees[foo-float16]")
    )
    assert complaints(rows(stack), record) == []


def test_an_expired_row_excuses_nothing_and_fails_the_run(stack: Stack) -> None:
    found = rows(stack, ROW.replace(str(LAST), "2026-01-31"))
    assert known_issues.excuse(found, FAILED, made()) is FAILED
    (sentence,) = complaints(found, made(FAILED))
    assert "expired on 2026-01-31" in sentence
    assert f"renew 'expires' or delete the row at {stack.folder}/known_issues.toml:2" in sentence


def test_a_row_that_matches_nothing_fails_a_whole_run(stack: Stack) -> None:
    found = rows(stack)
    assert "matches no check" in complaints(found, made())[0]
    assert complaints(found, made(), partial=True) == []
    assert list(known_issues.verdicts(found, made(), ("smoke",), False)) == []


def test_rows_about_cards_do_not_hold_in_a_rehearsal(stack: Stack) -> None:
    rehearsed = replace(stack, rehearsed=True)
    assert rows(stack) and not rows(rehearsed)
    assert rows(rehearsed, ROW + 'where = "rehearsal"\n')
    assert rows(stack, ROW + 'where = "both"\n') and rows(rehearsed, ROW + 'where = "both"\n')


@pytest.mark.parametrize(("old", "new", "words"), [
    ('"somebody"', '" "', "owner' is empty"), ('"foo is wrong"', '""', "reason' is empty"), ("foo is wrong", "\udcf6", "is not UTF-8"),
    ("error [0-9]", "(", "no pattern"), ("error [0-9]", "", "which any failure says"), ("error [0-9]", "e", "which any failure says"),
    ("error [0-9]", "AssertionError", "which any failure says"),
    ('says = "error [0-9]"\n', "", "says' is missing"), (str(LAST), "2199-01-01", "a row ends within 366 days"),
    ("torch = ", "troch = ", "'issue[0].troch' is not a known key"), ('">=2.8,<2.9"', '"newer"', "must be a version range"),
    (str(LAST), '"soon"', "must be a date such as 2027-01-31"), (str(LAST), "2999-12-31T10:00:00Z", "must be a date such as 2027-01-31"),
    ("https://", "see ", "must be the address of a public thread"), ('owner = "somebody"\n', "", "'issue[0].owner' is missing"),
    ("operators/sweep::agrees[[]foo-*", "*", "must name suite, file and check"),
    ("operators/sweep::agrees[[]foo-*", "operators/*", "must name suite, file and check"),
    ("operators/sweep::agrees[[]foo-*", "operators/sweep::[ab]*", "must name suite, file and check"),
    ("operators/sweep", "operatrs/sweep", "there is no suite 'operatrs' (did you mean 'operators'?)"),
    ("most = 9", "", "'issue[0].most' is missing"),
])  # fmt: skip
def test_a_bad_row_is_refused(stack: Stack, old: str, new: str, words: str) -> None:
    with pytest.raises(Refusal) as refusal:
        rows(stack, ROW.replace(old, new))
    assert words in str(refusal.value)


@pytest.mark.parametrize("name", stacks.names())
def test_our_own_rows_load_and_are_of_suites_that_exist(name: str) -> None:
    for loaded in (stacks.load(name), stacks.load(name).rehearse()):
        for row in known_issues.load(loaded):
            assert not row.expired, row.place
            assert row.test.split("/", 1)[0] in stacks.suites(), row.place


def test_a_fact_of_the_host_can_limit_a_row(stack: Stack) -> None:
    found = rows(stack, ROW + 'when = { "cpu.flags" = "*amx_bf16*" }\n')
    with_amx, without = made(), made()
    with_amx.provenance["cpu.flags"] = "avx512f amx_tile amx_bf16"
    assert known_issues.excuse(found, FAILED, with_amx).verdict is Verdict.KNOWN_ISSUE
    assert known_issues.excuse(found, FAILED, without) is FAILED
    without.checks.append(replace(FAILED, verdict=Verdict.PASSED))
    assert complaints(found, without) == []


@pytest.mark.parametrize("text", ["[!x]*", "*[!a]", "[0-9]*"])
def test_a_fact_that_is_not_there_limits_a_row(stack: Stack, text: str) -> None:
    found = rows(stack, ROW + f'when = {{ "cpu.flagz" = "{text}" }}\n')
    assert known_issues.excuse(found, FAILED, made()) is FAILED


def test_a_row_excuses_at_most_what_it_says(stack: Stack) -> None:
    found = rows(stack, ROW.replace("most = 9", "most = 1"))
    known = replace(FAILED, verdict=Verdict.KNOWN_ISSUE)
    assert complaints(found, made(known)) == []
    (said,) = complaints(found, made(known, replace(known, id="operators/sweep::agrees[foo-bfloat16]")))
    assert "excuses 2 checks" in said


def test_a_fault_of_chance_may_pass(stack: Stack) -> None:
    found = rows(stack, ROW + "sometimes = true\n")
    assert complaints(found, made(replace(FAILED, verdict=Verdict.PASSED))) == []


def test_rows_are_judged_without_a_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert known_issues.main() == 0
    (tmp_path / "xpu").mkdir()
    text = ROW.replace("agrees", "agreed") + ROW.replace(str(LAST), "2020-01-31")
    (tmp_path / "xpu" / "known_issues.toml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(known_issues, "STACKS", tmp_path)
    assert known_issues.main() == 1
    said = capsys.readouterr().out
    assert "no check is called 'operators/sweep::agreed" in said
    assert "expired on 2020-01-31" in said
