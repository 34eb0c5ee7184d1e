"""Compares compiled files with their sources, in a process of its own: `python -I -S compiled_reader.py` answers a line for each line.

Reading a file that somebody else compiled (marshal) can end the process that reads it. So this imports nothing but Python's own
library, and whoever started it tells a crash from an answer.
"""

from __future__ import annotations

import importlib.util
import json
import marshal
import os
import resource
import struct
import sys
import warnings
from pathlib import Path

_HEADER = 16
_MOST_BYTES = 2 << 30  # four bytes can ask marshal for 16 GiB; compiling torch's largest source took 83 MiB
_BY_HASH, _CHECKED = 0b01, 0b10


def fault(path: Path) -> str:
    """Say why a compiled file must not be there, or nothing: it is right, or Python does not take it."""
    source = Path(source_of(str(path)))
    if odd := next((one for one in (path, source) if one.exists() and not one.is_file()), None):
        return f"is not compared: {odd.name} is no file"  # a pipe would be waited for
    try:
        content, text, seen = path.read_bytes(), source.read_bytes(), source.stat()
    except OSError:
        return ""  # without its source it is not taken
    if len(content) <= _HEADER or not content.startswith(importlib.util.MAGIC_NUMBER):
        return ""
    flags, first, size = struct.unpack("<III", content[4:_HEADER])
    if flags == _BY_HASH:
        return f"is taken for {source.name} without a look at it"
    if flags == _BY_HASH | _CHECKED:
        taken = content[8:_HEADER] == importlib.util.source_hash(text)
    else:
        taken = (first, size) == (int(seen.st_mtime) & 0xFFFFFFFF, seen.st_size & 0xFFFFFFFF)
    return "" if not taken or _same(content[_HEADER:], text, path, source) else f"is not what {source.name} compiles to"


def source_of(path: str) -> str:
    """Return the source that a compiled file stands for."""
    folder, name = os.path.split(path)  # texts, because there are thousands
    return os.path.join(os.path.dirname(folder), f"{name.partition('.')[0]}.py")  # noqa: PTH118, PTH120


def _same(body: bytes, text: bytes, path: Path, source: Path) -> bool:
    """Whether a body is the code of a source, at the level of optimisation that its name says."""
    level = path.name.rpartition(".opt-")[2].removesuffix(".pyc")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = compile(
                text, str(source), "exec", dont_inherit=True, optimize=int(level) if level.isdecimal() else 0
            )
            found = marshal.loads(body)  # noqa: S302 - only compared, never run
            return bool(found == wanted)
        except Exception:  # whatever a reader, a compiler or a comparison says of it: it is not shown to be right
            return False


def main() -> int:
    """Answer each path on stdin, as JSON, with what is wrong with it, as JSON."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES if most < 0 else min(_MOST_BYTES, most), most))
    for line in sys.stdin:
        sys.stdout.write(f"{json.dumps(fault(Path(json.loads(line))))}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
