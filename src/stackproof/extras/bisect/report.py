"""A bisection for people: in the terminal, and as Markdown for a comment; both are made of the record."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from stackproof.api.base import in_markdown, plain
from stackproof.api.record import Check, Record, Verdict

_CULPRIT, _UNRESOLVED = "bisect/culprit::", "bisect/unresolved::"


def headline(record: Record) -> str:
    """Return the one line that decides."""
    names = " and ".join(check.subject for check in culprits(record))
    word = str(record.provenance.get("bisect", record.verdict.value))
    ends = next((check.reason for check in record.checks if check.id == "bisect/run::ends"), "")
    return f"{word}: {names}" if names else f"{word}: {ends}"


def culprits(record: Record) -> list[Check]:
    """Return the checks that name a culprit."""
    return [check for check in record.checks if check.id.startswith(_CULPRIT)]


def lines(record: Record) -> Iterator[tuple[str, str]]:
    """Yield what there is to say, each with its title."""
    facts = record.provenance
    if culprits(record):
        yield "what is worse", next(check.reason for check in record.checks if check.id == "bisect/run::ends")
    for check in culprits(record):
        yield check.subject, check.reason
    for check in record.checks:
        if check.id == "bisect/run::search" and check.verdict is not Verdict.PASSED:
            yield "search", check.reason
        if check.id.startswith(_UNRESOLVED):
            yield "unresolved", check.reason
    for name in ("held", "notes"):
        if name in facts:
            yield {"held": "cannot be moved here"}.get(name, name), str(facts[name])
    yield (
        "tests",
        f"{facts.get('tests', 0)} of sets, {facts.get('launches', 0)} launches after the confirmation, {record.seconds / 60:.1f} min",
    )
    for name, title in (("remedy", "what to do"), ("repeat", "to see it again"), ("go on", "to go on")):
        if name in facts:
            yield title, str(facts[name])


def show(record: Record, console: Console) -> None:
    """Print it."""
    style = "bold green" if record.verdict is Verdict.PASSED else "bold yellow"
    console.print(Text(plain(headline(record)), style=style), soft_wrap=True)
    for title, text in lines(record):
        console.print(Text(f"  {plain(title)}: {plain(text)}"), soft_wrap=True)


def markdown(record: Record) -> str:
    """Return it for a pull request."""
    parts = [f"### stackproof bisect: {in_markdown(headline(record))}", ""]
    parts += [f"- **{in_markdown(title)}**: {in_markdown(text)}" for title, text in lines(record)]
    changes = str(record.provenance.get("changes", ""))
    if changes:
        parts += ["", "<details><summary>all changes between the ends</summary>", ""]
        parts += [f"- {in_markdown(one)}" for one in changes.split("\n")]
        parts += ["", "</details>"]
    return "\n".join([*parts, ""])
