"""Redaction: what names somebody goes, what only looks like it stays."""

from __future__ import annotations

import getpass
import socket
from pathlib import Path

import pytest

from stackproof.base.redact import Redactor
from stackproof.doctor.machine import Machine

from ..doctor.boxes import bare


@pytest.fixture
def clean(tmp_path: Path) -> Redactor:
    """The redactor of a box on which Grace works."""
    box = bare(tmp_path / "box").file("/etc/resolv.conf", "nameserver 10.0.0.2\nsearch cluster.example corp.example\n")
    box.environ |= {"LOGNAME": "grace", "SLURMD_NODENAME": "gpu07"}
    read = box.machine().read
    return Redactor.of(box.environ, read, {"25.38.4.1", "1.14.37435", "multi-arc-bmg-offline-installer-25.38.4.1"})


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/grace/stackproof/x.py", "~/stackproof/x.py"),
        ("/home/ada/y", "~/y"),
        ("/Users/ada/y", "~/y"),
        ("/root/.cache", "~/.cache"),
        ("/scratch/grace/env", "/scratch/<user>/env"),
        ("owner grace (grace)", "owner <user> (<user>)"),
        ("on gpu07.cluster.example", "on <host>"),
        ("gpu07: ok", "<host>: ok"),
        ("node99.corp.example:29500", "<host>:29500"),
        ("gloo at 10.1.2.7_4711", "gloo at <address>_4711"),
        ("rank 3 on ip-10-1-2-7", "rank 3 on <host>"),
        ("MASTER_ADDR=node12", "MASTER_ADDR=<host>"),
        ("tcp://10.1.2.7:4711", "tcp://<address>:4711"),
        ("listening on 0.0.0.0", "listening on <address>"),
        ("inet6 fe80::1%eth0 scope", "inet6 <address> scope"),
        ("2001:db8:0:0:1::7 x", "<address> x"),
        ("ether aa:bb:cc:dd:ee:ff", "ether <address>"),
        ("mail ada@corp.example now", "mail <mail> now"),
        ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-<serial>"),
    ],
)
def test_names_and_addresses_go(clean: Redactor, text: str, left: str) -> None:
    assert clean.clean(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "0000:03:00.0 and 0000:0a:00.0",
        "driver 25.38.4.1",
        "multi-arc-bmg-offline-installer-25.38.4.1",
        "torch 2.8.0+cu128, NCCL 2.27.3",
        "kernel 6.14.0-1006-intel",
        "c10d::broadcast_ and aten::add",
        "smoke/ddp::bring_up",
        "12:16:24 and 2025:05:01",
        "libnccl.so.2.27.3",
        "a root port, the root of it",
        "gracefully degraded",
        "gpu070 and xgpu07",
        "https://docs.nvidia.com/grace/gpu07/10.1.2.7",
        "localhost",
        "0,1:2",
        "PCIe 32 GT/s x8",
        "groups ::",
        "version 1.2.3.4.5",
    ],
)
def test_what_only_looks_like_it_stays(clean: Redactor, text: str) -> None:
    assert clean.clean(text) == text


def test_users_that_name_nobody_are_kept(tmp_path: Path) -> None:
    box = bare(tmp_path / "box")
    box.environ |= {"USER": "root", "HOME": "/root"}
    assert Redactor.of(box.environ, box.machine().read).clean("root and ubuntu in /root/x") == "root and ubuntu in ~/x"


def test_the_machine_that_runs_this(tmp_path: Path) -> None:
    host, here = socket.gethostname(), Machine()
    text = Redactor.of(here.environ, here.read, real=True).clean(f"on {host} by {getpass.getuser()} in {Path.home()}/x")
    assert host not in text or host in ("localhost", "none")
    assert str(Path.home()) not in text
