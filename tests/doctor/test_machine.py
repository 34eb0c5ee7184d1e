"""What is read of a machine, and that what cannot be read is nothing rather than an error."""

from __future__ import annotations

from pathlib import Path

from stackproof.doctor.machine import Machine


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    machine = Machine(root=tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "bytes").write_bytes(b"\xff\xfea\0\n")
    (tmp_path / "large").write_bytes(b"x" * (3 << 20))
    assert (machine.read("/none"), machine.read("/folder")) == ("", "")
    assert machine.read("/bytes").endswith("a")
    assert len(machine.read("/large")) == 1 << 20
    assert machine.glob("/no/such/*") == []
    assert machine.ownership("/none") == ("", "", -1)


def test_links_are_followed_inside_the_tree(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a/b")
    assert Machine(root=tmp_path).target("/link") == "/a/b"


def test_libraries_are_found_where_the_loader_looks(tmp_path: Path) -> None:
    machine = Machine(root=tmp_path, environ={"LD_LIBRARY_PATH": ":/opt/x/lib"})
    assert not machine.has_library("liba.so.1")
    for place in ("usr/lib/x86_64-linux-gnu", "opt/x/lib", "usr/local/lib"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "liba.so.1").touch()
        assert machine.has_library("liba.so.1")
        (tmp_path / place / "liba.so.1").unlink()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ld.so.cache").write_bytes(b"\x00libb.so.2\x00liba.so.1\x00")
    assert machine.has_library("liba.so.1")


def test_the_real_machine_is_asked_directly() -> None:
    machine = Machine()
    assert machine.real
    assert machine.may_use("/dev/null")
    assert machine.disk_free() > 0
