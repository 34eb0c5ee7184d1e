"""What a log says, line by line: without escape sequences and prefixes, tracebacks whole, and what of a document is output."""

from __future__ import annotations

import datetime
import html
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stackproof.triage.search import Block

LONGEST = 4096
"""What of a line is read on either side of the place that matters, in bytes."""

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)?|\x1b[@-_]|[\x00\x07\x08]")
_ENTITY = re.compile(r"&(?:quot|lt|gt|amp|nbsp|apos|#\d{1,4}|#x[0-9a-fA-F]{1,4});")
_DOCKER = re.compile(r'\{"log":("(?:[^"\\]|\\.)*")')
_TAGS = re.compile(r"</?(?:pre|code|span|div|p|br|li|td|tr|b|i|font|samp|blockquote)\b[^<>]{0,200}>")
_LEVEL = r"(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)"
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"

_SPOKEN = r"\[rank\d|\[default\d|Traceback \(most| +File \"|(?:[a-z]\w*\.)*[A-Z]\w*(?:Error|Exception):"

# What stands before a line. Ranks: torch's own, `torchrun --tee`, Open MPI `--tag-output`, `srun -l`, `mpirun -l`, a driver's "r0"; a
# process: Ray; neither: quotes, progress bars that something was written behind, seconds since the start, the columns of containers,
# clouds, syslog and CI, dates, names and levels of loggers, hosts of pdsh.
_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        r" {0,2}\[(?:rank|w)(?P<rank>\d{1,6})\]:? ?",
        r"\[(?!Rank|rank)[A-Za-z_]+(?P<rank>\d{1,6})\]:",
        r"\[\d+,(?P<rank>\d{1,6})\]<std(?:out|err)>: ?",
        r"\[(?P<rank>\d{1,3})\] (?!MPI startup)(?=\S| {2})|\[\d{4,9}\] (?=\S)",
        r" {0,4}(?P<rank>\d{1,5}): (?=\S)| {0,4}(?P<rank2>\d{1,5}): (?= +(?:File |\^|[a-z]))",
        r"\((?:\w+ )?pid=(?P<pid>\d{1,9})(?:, ip=[0-9a-fA-F.:]+)?\) ?",
        r"(?:>+ ?)+(?=\S| )",
        r"\[ {0,8}\d+\.\d+\] (?:r(?P<rank>\d{1,6}) )?",
        r" {0,4}\| ",
        r"[\w.-]+-\d+ +\| ?",
        rf"{_LEVEL} \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]+:\d+\] ?",
        rf"\[?{_TIME}\]? ?(?:std(?:out|err) [FP] ?)?(?:\| )?",
        r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]+ [\w./-]+(?:\[\d+\])?: ?",
        rf"(?:- )?(?:[\w.:<>-]{{1,60}} - )?{_LEVEL} +- +",
        rf"(?:\| )?{_LEVEL} +\| +(?:[\w.:<>-]{{1,80}} (?:\||-) )?",
        rf"(?:\[[\w.]+\])?\[{_LEVEL}\] ?- ",
        rf"{_LEVEL} {{3,}}(?=\S)",
        r"\[[EWID] \d{6} [\d:]+ [\w.]+:\d+\] ?",
        r"##\[(?:error|debug|command)\]",
        r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+: (?=\S| )(?!(?:\w+ )?(?:error|fatal): |command not found|can(?:not|'t) )",
        rf"[a-z][a-z0-9.-]{{0,60}}(?:: | [a-z][a-z0-9-]{{0,60}} )(?={_SPOKEN})",
        r"[a-z][a-z0-9.-]{0,60} [\w./-]{1,60}\[\d+\]: ",
        r"\d{1,3}(?:\.\d{1,3}){3}: ?(?=\S| )",
        r"\[(?:pod|job|deploy(?:ment)?)/[\w./-]+\] ?",
    )
)
_BAR = re.compile(r"[^<\n]{0,400}\[\d+:\d\d(?::\d\d)?<[^\]\n]{1,80}\] *(?=\S)")
_MOST_PREFIXES = 6
_HEAD = 400
_HOST = re.compile(r"[\w.-]+:(?P<pid>\d{1,9}):\d+ \[\d+\] ")
_ONECCL = re.compile(r":\( *(?P<pid>\d{1,9})\) \|CCL_|:(?P<pid2>\d{1,9}):\[(?P<rank>\d{1,6})\] \|CCL_")
_AGENT = re.compile(r"[IWEF]\d{3,4} [\d:.]+ (?P<pid>\d{1,9}) \S*torch/")
_WATCHDOG = re.compile(r"\[(?:PG (?:ID )?[^\]]{0,80} )?Rank (?P<rank>\d{1,6})\]")

# oneCCL's ranks write to one stream without taking turns: a line may hold several.
_GLUED = re.compile(r"(?<=.)(?=\d{4}:\d\d:\d\d-\d\d:\d\d:\d\d:[( \d]+[)\[])")

_TIMES = re.compile(
    r"(?P<y>\d{4})(?P<s>[:-])(?P<mo>\d\d)(?P=s)(?P<d>\d\d)[-T _](?P<t>\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)"
    r"|(?<![A-Za-z])[IWEF](?P<mo2>\d{1,2})(?P<d2>\d\d) (?P<t2>\d\d:\d\d:\d\d(?:\.\d{1,6})?)"
)
_LEAP = 2000

# Tracebacks.
_FRAMES = 12
_FAR = 400
_NEAR = 60
_BEGINS = re.compile(r"Traceback \(most recent call last\)(?::\s*(?:File .*)?$|\s*─|\s*$)")
_BOX = "│╭╰┌└|"
_BOXED_FRAME = re.compile(r"(\S+\.py|<\w+>):(\d+) in (\S+)")
_NAMED = re.compile(r"(?P<name>\w*(?:Error|Exception|Interrupt|Exit|Warning))\s+Traceback \(most")
_EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Iteration|Timeout|Abort)(?::|$)"
)
_LINK = ("The above exception was", "During handling of the above")


@dataclass(frozen=True)
class Line:
    """A line: its text, and the rank and the process that wrote it as far as it says; `head` is its beginning with all prefixes."""

    text: str
    rank: int | None
    pid: int | None
    head: str


def parse(raw: str) -> Line:
    """Read one line; whatever it holds, it is only text."""
    text = _plain(raw).rstrip("\r\n")
    head = text[:_HEAD]
    rank: int | None = None
    pid: int | None = None
    for _ in range(_MOST_PREFIXES):
        match = (_BAR.match(text) if "<" in text and not text.rstrip().endswith("]") else None) or next(
            (match for prefix in _PREFIXES if (match := prefix.match(text))), None
        )
        if match is None or not match.end():
            break
        named = match.groupdict()
        rank = int(digits) if (digits := named.get("rank") or named.get("rank2")) else rank
        pid = int(digits) if (digits := named.get("pid")) else pid
        text = text[match.end() :]
    if match := _HOST.match(text) or _ONECCL.search(text[:80]) or _AGENT.match(text):
        named = match.groupdict()
        pid = int(digits) if (digits := named["pid"] or named.get("pid2")) else pid
        rank = int(digits) if (digits := named.get("rank")) else rank
    if rank is None and (match := _WATCHDOG.search(text[:_HEAD])):
        rank = int(match["rank"])
    return Line(_from_traceback(text), rank, pid, head)


def _plain(raw: str) -> str:
    text = _ESCAPES.sub("", _unwrapped(raw) if raw.startswith('{"log":"') else raw)
    if "<" in text and _TAGS.search(text):
        text = _TAGS.sub("", text)
    return html.unescape(text) if "&" in text and _ENTITY.search(text) else text


def _unwrapped(raw: str) -> str:
    match = _DOCKER.match(raw)
    try:
        return str(json.loads(match[1], strict=False)) if match else raw
    except (ValueError, RecursionError):
        return raw


def _from_traceback(text: str) -> str:
    match = _BEGINS.search(text) if "Traceback (most" in text else None
    if match is None or not text[: match.start()].strip(" |+") or _NAMED.match(text) or text[:1] in _BOX:
        return text
    return text[match.start() :]


def split(raw: str) -> list[str]:
    """Return the lines that several ranks wrote into one."""
    return _GLUED.split(raw) if raw.count("|CCL_") > 1 else [raw]


def time_of(text: str, last: bool = False) -> float | None:
    """Return the first (or last) time in the text, in seconds since the start of its year; not all formats name the year."""
    times = list(_TIMES.finditer(text))
    return next((time for match in times[:: -1 if last else 1] if (time := _seconds(match)) is not None), None)


def _seconds(match: re.Match[str]) -> float | None:
    month, day = int(match["mo"] or match["mo2"]), int(match["d"] or match["d2"])
    clock = (match["t"] or match["t2"]).replace(",", ".")
    hours, minutes, rest = clock.split(":")
    try:
        ordinal = datetime.date(_LEAP, month, day).toordinal() - datetime.date(_LEAP, 1, 1).toordinal()
    except ValueError:
        return None
    return ordinal * 86400.0 + int(hours) * 3600 + int(minutes) * 60 + float(rest)


def follow(head: Line, number: int, rest: Iterable[Line]) -> Block:
    """Read the traceback that `head` (line `number` of the log) begins, or a frame of it; lines of other ranks are passed over.

    It ends with the exception: the first line of the same rank that is not indented, or the next one that looks like an exception
    where something was written in between. A log may be cut before that.
    """
    reader = _Reader(head)
    last = number
    for count, line in enumerate(rest, 1):
        if count > _FAR:
            break
        if line.rank != head.rank:
            continue
        if reader.ends(line, number + count):
            break
        last = number + count
    return reader.block(last)


class _Reader:
    def __init__(self, head: Line) -> None:
        text = head.text
        self.margin = len(text) - len(text.lstrip(" |+"))
        named = _NAMED.match(text)
        self.name = named["name"] if named else ""
        self.boxed = text[:1] in ("╭", "┌", "│")
        self.frames: list[str] = []
        self.code = False
        self.first = ""
        self.exception = ""
        self.at = 0
        self.more = False
        self._frame(text.strip())

    def ends(self, line: Line, number: int) -> bool:
        """Take the next line; whether the traceback is over."""
        text = line.text[self.margin :] if line.text[: self.margin].strip(" |+") == "" else line.text
        if self.more:
            self.exception = f"{self.exception} {text.strip()}".strip()
            return bool(text.strip())
        if self.name:
            over = text == self.name or text.startswith(f"{self.name}:")
            if over:
                self.exception, self.at = text.strip(), number
            return over
        if self.boxed and text[:1] in _BOX:
            self._frame(text.strip())
            return False
        is_frame = text.lstrip().startswith('File "')
        if text.strip() and not (text.startswith((" ", "\t")) or is_frame or self.code):
            return self._speaks(text.strip(), number)
        self.code = is_frame and not text.startswith((" ", "\t"))  # pasted without its indentation, as in threads
        self._frame(text.strip())
        return bool(self.first) and number - self.at > _NEAR

    def _speaks(self, text: str, number: int) -> bool:
        if text.startswith(_LINK):
            return True
        if not self.first and not text.startswith("Traceback (most"):
            self.first, self.at = text, number
        if _EXCEPTION.match(text):
            self.exception, self.at = text, number
            self.more = text.endswith(":")
            return not self.more
        return False

    def _frame(self, text: str) -> None:
        if text.startswith('File "'):
            self.frames.append(text)
        elif self.boxed and (match := _BOXED_FRAME.search(text)):
            self.frames.append(f'File "{match[1]}", line {match[2]}, in {match[3]}')

    def block(self, last: int) -> Block:
        exception = self.exception or self.first
        return Block(exception, tuple(self.frames[-_FRAMES:]), self.at if exception else last)


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
    r"|\s*(?:×|╰─▶) |# +(?:nThread|Using devices|Rank +\d|size +count|Out of bounds|Avg bus)|\*{5}|={10}|-{10}"
)
_TABLE = re.compile(r"\s*(?:\|.*\||\+[-=+]{10,}\+)\s*$")
_RAISED = re.compile(r"[\s>#]*(?:\w+\.)*\w*(?:Error|Exception):(?:\s|$)")
_RAN = re.compile(
    r"Traceback \(most|\s*File \"[^\"]+\", line \d|\[rank\d+\]|\d\d:\d\d:\d\d|\d+%\||it/s\]|\w+Warning: |>>> |\$ |\| (?:Fail|Warning: GPU)"
)
_STATEMENT = re.compile(
    r"[-+>\s]*(?:raise|throw|print\(|assert|echo|trap|logg(?:er|ing)\.\w+\(|warnings\.warn|return|RUN)\s?['\"(\w]|[\w.-]+[=<>]\S* +# "
)
_QUOTED = re.compile(r"\"[^\"]*\"|`[^`]*`")
_FRAME = re.compile(r"File \"[^\"]+\", line \d")
_FEWEST_WORDS = 5
_FEWEST = 25  # words of sentences make a document
_PLAIN = 0.7
_SHARE = 0.25


@dataclass(frozen=True)
class _Part:
    """Some lines of a text that belong together: at which byte they begin, whether they are fenced, and what they say."""

    begin: int
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


def document(data: bytes) -> Document | None:
    """Return what of a text is output, if it is a document; None for a log."""
    if len(data) > LARGEST:
        return None
    parts = list(_parts(data))
    kinds = [_kind(part) for part in parts]
    prose = [text for part, kind in zip(parts, kinds, strict=True) if kind == "prose" for text in part.texts]
    words = sum(len(text.split()) + len(_WIDE.findall(text)) // 2 for text in prose)
    open_ = sum(len(part.texts) for part in parts if not part.fenced)
    if words < _FEWEST or len(prose) < _SHARE * open_:
        return None
    return Document(tuple(part.begin for part in parts), tuple(kinds))


def _parts(data: bytes) -> Iterator[_Part]:
    fenced, texts, begin, end = False, list[str](), 0, 0
    for raw in data.split(b"\n"):
        text = raw.decode("utf-8", "replace")
        end += len(raw) + 1
        if _FENCE.match(text) or not (text.strip(" \t\r>") or fenced):
            if texts:
                yield _Part(begin, fenced, tuple(texts))
            fenced ^= bool(_FENCE.match(text))
            texts, begin = [], end
        else:
            texts.append(text)
    if texts:
        yield _Part(begin, fenced, tuple(texts))


def quotes(text: str, begin: int) -> bool:
    """Whether somebody quotes what stands there: in `backticks`, within a sentence in "quotation marks", or a program's own text."""
    if _STATEMENT.match(text):
        return True
    marked = '"' in text or "`" in text
    for match in _QUOTED.finditer(text.replace("```", "   ")) if marked else ():
        if match.start() < begin < match.end():
            rest = f"{text[: match.start()]} {text[match.end() :]}"
            return bool(rest.strip(" |>*.:-")) if match[0][0] == "`" else is_prose(rest) and not _FRAME.search(text)
    return False


def _kind(part: _Part) -> str:
    if all(_TABLE.match(text) for text in part.texts) and not any(_RAN.search(text) for text in part.texts):
        return "prose"
    if any(_MACHINE.match(text) or _MACHINE.search(text[:120]) for text in part.texts):
        return "fenced" if part.fenced else "output"
    if sum(bool(_RECIPE.match(text)) for text in part.texts) >= len(part.texts) / 2:
        return "prose"
    if part.fenced:
        return "fenced"
    if any(_RAISED.match(text) for text in part.texts):
        return "output"
    return "prose" if sum(map(is_prose, part.texts)) >= len(part.texts) / 2 else "output"


def is_prose(text: str) -> bool:
    """Whether a line is part of a sentence: plain words, common ones among them."""
    bare = parse(_MARKS.sub("", text, count=1)).text
    if len(_WIDE.findall(bare)) >= max(4, len(bare) // 4):
        return True
    words = bare.split()
    if len(words) < _FEWEST_WORDS:
        return False
    plain = sum(bool(_WORD.fullmatch(word)) for word in words)
    common = sum(word.strip("`\"'(),.;:?!").lower() in _COMMON for word in words)
    return plain >= _PLAIN * len(words) and common >= max(2, len(words) // 8)
