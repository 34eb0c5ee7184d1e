"""What of a document a program printed: in notes, threads and guides a sentence about an error is no error.

Fenced blocks and paragraphs that look like output are evidence; sentences, advice and recipes are only mentioned.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stackproof.triage import lines

LARGEST = 1 << 18
"""Documents are short; what is longer is a log."""

_FENCE = re.compile(r"[\s>]*(?:```|~~~)")
_MARKS = re.compile(r"[\s>*+•\-#\d.()]+")
_RECIPE = re.compile(
    r"\s*(?:[$#>] )?(?:export|set|source|cd|pip3?|conda|mpirun|torchrun|python3?|accelerate|srun|sbatch|docker|kubectl|ENV|import|from)\s"
    r"|\s*#|\s*[A-Z][A-Z0-9_]+=\S|.*\\$|[-+ ] ?ENV "
)
_WORD = re.compile(r"[`\"'(\[]*[A-Za-z][A-Za-z'’/-]*[`\"')\],.;:?!]*")
_LINKING = (
    "a an the is are was were be been to of and or in on for with by as at it its this that these you your i we my our they he if "
    "when where which while what how not no can could may might must should will would do does did has have had from into than "
    "then there but so only also any all some more most please try use set get same"
)
_COMMON = frozenset(_LINKING.split())
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef]")
_MACHINE = re.compile(
    r"Traceback \(most|\s*File \"[^\"]+\", line \d|\[rank\d+\]|\d\d:\d\d:\d\d|(?:^|\] |:\d+ )NCCL (?:INFO|WARN)|\|CCL_|\d+%\||it/s\]"
    r"|(?:srun|slurmstepd): |\w+Warning: |\[[EWIF] ?\w|^\S{0,30}[\w/]\.?[\w./-]* ?: (?=\S)|(?<!=)(?:DEBUG|INFO|WARNING|ERROR)[ :|!]|\x1b\["
    r"|^\[ *\d+\.\d+\]|\w\.(?:cc?|cpp|cuh?|hp?p?|py|rs|go|java|txt|sh) *[:(] *\d+"
    r"|CMake (?:Error|Warning)|^(?:\S+: )?(?:fatal )?(?:error|fatal): \S|core dumped|0x[0-9a-f]{8}"
    r"|# +(?:nThread|Using devices|Rank +\d|size +count|Out of bounds|Avg bus)|\*{5}|={10}|-{10}"
)
_TABLE = re.compile(r"\s*(?:\|.*\||\+[-=+]{10,}\+)\s*$")
_RAISED = re.compile(r"[\s>#]*(?:\w+\.)*\w*(?:Error|Exception):(?:\s|$)")
_CODE = re.compile(
    r"\s*(?:def|class|import|from|return|raise|try|except|if|elif|else|for|while|with|pass|assert|@\w+|#include|using|throw|template)\b"
    r"|.*(?:[{(\[]|[})\]][;,]|;|[\"'],|\):)$|\s+(?:#|//) |#!|#SBATCH|set -|trap |srun |export |@@ |diff --git |(?:---|\+\+\+) [ab]/"
)
_RAN = re.compile(
    r"Traceback \(most|\s*File \"[^\"]+\", line \d|\[rank\d+\]|\d\d:\d\d:\d\d|\d+%\||it/s\]|\w+Warning: |>>> |\$ |\| (?:Fail|Warning: GPU)"
)
_STATEMENT = re.compile(
    r"[-+>\s]*(?:raise|throw|print\(|assert|echo|trap|logg(?:er|ing)\.\w+\(|warnings\.warn|return|RUN)\s?['\"(\w]|[\w.-]+[=<>]\S* +# "
)
_QUOTED = re.compile(r"\"[^\"]*\"|`[^`]*`")
_FRAME = re.compile(r"File \"[^\"]+\", line \d")
_SECTION = re.compile(rb'"(outputs|source|metadata)": ?\[?')
_OUTPUTS = {b"outputs": "output", b"source": "prose", b"metadata": "prose"}
_FEWEST_CODE = 4
_FEWEST_WORDS = 5
_FEWEST = 25  # words of sentences make a document
_PLAIN = 0.7
_SHARE = 0.25
_MOSTLY = 0.6


@dataclass(frozen=True)
class _Part:
    """Some lines of a text that belong together: where they begin, how many bytes, whether fenced, and what they say."""

    begin: int
    end: int
    fenced: bool
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Document:
    """Where a document's programs speak: `begins` and `kinds` of its parts."""

    begins: tuple[int, ...]
    kinds: tuple[str, ...]

    def kind(self, position: int) -> str:
        """Return what stands at a byte: "fenced" or "output" of a program, or "prose"."""
        return self.kinds[max(0, bisect_right(self.begins, position) - 1)]


def read(data: bytes) -> Document | None:
    """Return what of a text is output, if it is a document; None for a log."""
    if len(data) > LARGEST:
        return None
    if data.lstrip().startswith(b"{") and b'"cell_type":' in data:
        return _notebook(data)
    parts = list(_parts(data))
    if _is_source([text for part in parts for text in part.texts]):
        return Document((0,), ("prose",))
    kinds = [_kind(part) for part in parts]
    prose = sum(len(part.texts) for part, kind in zip(parts, kinds, strict=True) if kind == "prose")
    words = sum(
        len(text.split()) + len(_WIDE.findall(text)) // 2
        for part, kind in zip(parts, kinds, strict=True)
        if kind == "prose"
        for text in part.texts
    )
    open_ = sum(len(part.texts) for part in parts if not part.fenced)
    if words < _FEWEST or prose < _SHARE * open_:
        return None
    return Document(tuple(part.begin for part in parts), tuple(kinds))


def _notebook(data: bytes) -> Document:
    found = [(0, "prose"), *((hit.start(), _OUTPUTS[hit[1]]) for hit in _SECTION.finditer(data))]
    return Document(tuple(begin for begin, _ in found), tuple(kind for _, kind in found))


def _parts(data: bytes) -> Iterator[_Part]:
    fenced, texts, begin, position = False, list[str](), 0, 0
    for raw in data.split(b"\n"):
        text = raw.decode("utf-8", "replace")
        end = position + len(raw) + 1
        if _FENCE.match(text) or not (text.strip(" \t\r>") or fenced):
            if texts:
                yield _Part(begin, position, fenced, tuple(texts))
            fenced ^= bool(_FENCE.match(text))
            texts, begin = [], end
        else:
            texts.append(text)
        position = end
    if texts:
        yield _Part(begin, position, fenced, tuple(texts))


def _is_source(texts: Sequence[str]) -> bool:
    if len(texts) < _FEWEST_CODE or any(_RAN.search(text) for text in texts):
        return False
    return sum(bool(_CODE.match(text)) for text in texts) >= _MOSTLY * len(texts)


def quotes(text: str, begin: int) -> bool:
    """Whether somebody quotes what stands there: in `backticks`, within a sentence in "quotation marks", or a program's own text."""
    if _STATEMENT.match(text):
        return True
    marked = '"' in text or "`" in text
    for found in _QUOTED.finditer(text.replace("```", "   ")) if marked else ():
        if found.start() < begin < found.end():
            rest = f"{text[: found.start()]} {text[found.end() :]}"
            return bool(rest.strip(" |>*.:-")) if found[0][0] == "`" else is_prose(rest) and not _FRAME.search(text)
    return False


def _kind(part: _Part) -> str:
    recipe = sum(bool(_RECIPE.match(text)) for text in part.texts) >= len(part.texts) / 2
    if all(_TABLE.match(text) for text in part.texts) and not any(_RAN.search(text) for text in part.texts):
        return "prose"
    if any(_MACHINE.match(text) or _MACHINE.search(text[:120]) for text in part.texts):
        return "fenced" if part.fenced else "output"
    if recipe:
        return "prose"
    if part.fenced:
        return "fenced"
    if any(_RAISED.match(text) for text in part.texts):
        return "output"
    return "prose" if sum(map(is_prose, part.texts)) >= len(part.texts) / 2 else "output"


def is_prose(text: str) -> bool:
    """Whether a line is part of a sentence: plain words, common ones among them."""
    bare = lines.parse(_MARKS.sub("", text, count=1)).text
    if len(_WIDE.findall(bare)) >= max(4, len(bare) // 4):
        return True
    words = bare.split()
    if len(words) < _FEWEST_WORDS:
        return False
    plain = sum(bool(_WORD.fullmatch(word)) for word in words)
    common = sum(word.strip("`\"'(),.;:?!").lower() in _COMMON for word in words)
    return plain >= _PLAIN * len(words) and common >= max(2, len(words) // 8)
