"""Stand-in wheels: what they declare, and that nothing of them but name and version reaches a lock."""

from __future__ import annotations

import zipfile
from email.parser import Parser
from pathlib import Path

from stackproof.stack import relock
from stackproof.stack.stacks import Vendor

ROW = Vendor("Some-Thing", "1.0+das.opt2", "", "https://vendor.example/thing.whl", ("numpy<2", "torch==2.4.1"))
BODY = """\
numpy==1.26.4 \\
    --hash=sha256:aa
    # via some-thing
some-thing==1.0+das.opt2 ; python_version < '3.12' \\
    --hash=sha256:bb \\
    --hash=sha256:cc
    # via requirements.in
torch==2.4.1 \\
    --hash=sha256:dd
"""


def test_wheel_declares_what_the_definition_says(tmp_path: Path) -> None:
    folder = relock.make([ROW], tmp_path / "standins")
    with zipfile.ZipFile(folder / "Some_Thing-1.0+das.opt2-py3-none-any.whl") as wheel:
        text = wheel.read("Some_Thing-1.0+das.opt2.dist-info/METADATA").decode()
    declared = Parser().parsestr(text)
    assert (declared["Name"], declared["Version"]) == ("Some-Thing", "1.0+das.opt2")
    assert declared.get_all("Requires-Dist") == ["numpy<2", "torch==2.4.1"]


def test_equal_rows_make_equal_bytes(tmp_path: Path) -> None:
    first, second = (next(relock.make([ROW], tmp_path / name).iterdir()) for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_hash_of_a_stand_in_is_replaced_by_the_source() -> None:
    text = relock.without_hashes(BODY, [ROW])
    assert text.splitlines()[3:6] == [
        "some-thing==1.0+das.opt2 ; python_version < '3.12'",
        "    # no hash yet, from https://vendor.example/thing.whl",
        "    # via requirements.in",
    ]
    assert [line.split(":")[1] for line in text.splitlines() if "--hash" in line] == ["aa", "dd"]


def test_without_stand_ins_nothing_changes() -> None:
    assert relock.without_hashes(BODY, []) == BODY
    assert len(list(relock.entries(BODY))) == 3
