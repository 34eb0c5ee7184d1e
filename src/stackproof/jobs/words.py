"""A command as it was typed: split into words, refused where only a shell could run it, and told without its secrets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stackproof.base.errors import Refusal

_PYTHON = re.compile(r"python(\d+(\.\d+)?)?$")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_BUILTINS = ("cd", "source", ".", "export", "ulimit", "alias", "set", "eval", "exec")
_SECRET = re.compile(r"(?i)(token|secret|passw|api[-_]?key|credential)")
# What a shell acts on outside of quotes, and of these what it acts on inside double quotes too.
_SHELL = "|&;<>*`$"
_SHELL_IN_DOUBLE = "`$"


def split(command: str) -> list[str]:
    """Return the words of a command; it is run as it is, never by a shell.

    Raises:
        Refusal: it is empty, a quote is open, or it needs a shell.
    """
    if found := _needs_shell(command):
        raise Refusal(
            f"--command has {found}, which only a shell acts on, and none is used; write --command \"sh -c '...'\", or quote it"
        )
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Refusal(f"--command cannot be split into words ({error}); close the quotes") from error
    if not words:
        raise Refusal("--command is empty; write what is to be run, such as --command 'python train.py --steps 50'")
    name, equals, _ = words[0].partition("=")
    if equals and name.isidentifier():
        raise Refusal(f"--command begins with '{name}=', which only a shell acts on; write 'env {words[0]} ...'")
    if words[0] in _BUILTINS:
        raise Refusal(
            f"--command begins with '{words[0]}', which is a word of the shell and no program; "
            "name folders by --base-dir and --head-dir, or write --command \"sh -c '...'\""
        )
    return words


def _needs_shell(command: str) -> str:
    """Return the first character, quoted, that a shell would act on; nothing where there is none."""
    quote, escaped = "", False
    for character in command:
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote and character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        elif character in ("" if quote == "'" else _SHELL_IN_DOUBLE if quote else _SHELL):
            return f"'{character}'"
    return ""


def told(words: Sequence[str]) -> str:
    """Return a command as one line for a record: what is called a token, password or key is left out."""
    shown, hide = [], False
    for word in words:
        name, equals, _ = word.partition("=")
        secret = bool(_SECRET.search(name))
        shown.append("***" if hide else f"{name}=***" if equals and secret else word)
        hide = secret and not equals and word.startswith("-")
    return shlex.join(shown)


@dataclass(frozen=True)
class PythonCall:
    """A command that is Python running a file or a module: the words up to Python and its options, and those from there on."""

    before: tuple[str, ...]
    rest: tuple[str, ...]

    def inside(self, to: Path, *flags: str) -> list[str]:
        """Return the command that runs the same file inside our wrapper, which writes what it counts to `to`."""
        return [*self.before, str(Path(__file__).with_name("inside.py")), "--to", str(to), *flags, "--", *self.rest]


def python_call(words: Sequence[str]) -> PythonCall | None:
    """Return where Python's file or module begins; None for what is not Python, or is `-c` or standard input."""
    at = next((number for number, word in enumerate(words) if _PYTHON.match(Path(word).name)), None)
    if at is None:
        return None
    here = at + 1
    while here < len(words) and words[here].startswith("-") and words[here] != "-m":
        if words[here] in ("-c", "-"):
            return None
        here += 2 if words[here] in _WITH_VALUE else 1
    rest = tuple(words[here:])
    return PythonCall(tuple(words[:here]), rest) if len(rest) > (rest[:1] == ("-m",)) else None
