"""Two hosts on one machine: a namespace of networks, names and mounts for each, and a wire between them that delays and can be cut.

Namespaces live as long as the process that holds them, so that nothing is left when a test is killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stackproof.base import processes

_OWN = ("--net", "--uts", "--mount")
_WIRE = Path(__file__).with_name("wire.py")
_NAMES = ("alpha", "beta")
_HOSTS = "127.0.0.1 localhost\n10.77.0.1 alpha\n10.77.0.2 beta\n"
_PATIENCE_S = 20.0


def refusal() -> str:
    if missing := [tool for tool in ("unshare", "nsenter", "ip") if not shutil.which(tool)]:
        return f"two hosts need {', '.join(missing)} (util-linux, iproute2)"
    tried = subprocess.run(
        ["unshare", *_OWN, "ip", "link", "add", "name", "left", "type", "veth", "peer", "name", "right"],
        capture_output=True,
    )
    said = tried.stderr.decode(errors="replace").strip()
    return f"two hosts need network namespaces with veth, which this host refuses: {said}" if tried.returncode else ""


@dataclass
class Host:
    """A namespace with a name of its own; `holder` keeps it."""

    name: str
    holder: subprocess.Popen[str]

    def inside(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs a command in there, from this folder: a namespace of mounts begins at its root."""
        return ["nsenter", f"--target={self.holder.pid}", *_OWN, f"--wd={Path.cwd()}", "--", *command]

    def run(self, *command: str) -> None:
        subprocess.run(self.inside(command), check=True, timeout=_PATIENCE_S, capture_output=True)

    def start(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str], mark: str
    ) -> subprocess.Popen[bytes]:
        """Start a long command in there, its output in a file."""
        with log.open("wb") as output:
            return processes.start(self.inside(command), output, environment, mark)


@dataclass
class Network:
    """Two hosts and the process that carries frames between them."""

    hosts: tuple[Host, Host]
    wire: subprocess.Popen[str]

    def cut(self) -> None:
        """Let no frame through any more; neither host is told, as when a switch fails."""
        self.wire.kill()
        self.wire.wait(_PATIENCE_S)


@contextlib.contextmanager
def two_hosts(folder: Path, delay_s: float = 0.0) -> Iterator[Network]:
    """Give two hosts, alpha and beta, whose frames take `delay_s` each way."""
    with contextlib.ExitStack() as stack:
        names = folder / "hosts"
        names.write_text(_HOSTS, encoding="utf-8")
        switch, alpha, beta = (stack.enter_context(_held(name, names)) for name in ("switch", *_NAMES))
        for number, host in enumerate((alpha, beta), 1):
            _plug(switch, host, f"10.77.0.{number}/24")
        wire = stack.enter_context(_speaking(switch.inside([sys.executable, str(_WIRE), *_NAMES, str(delay_s)])))
        yield Network((alpha, beta), wire)


@contextlib.contextmanager
def _held(name: str, names: Path) -> Iterator[Host]:
    """Hold a namespace whose host name is `name` and which knows the addresses in the file `names`."""
    script = 'hostname "$1" && mount --bind "$2" /etc/hosts && ip link set lo up && echo held && exec sleep 3600'
    with _speaking(["unshare", *_OWN, "sh", "-c", script, "sh", name, str(names)]) as holder:
        yield Host(name, holder)


def _plug(switch: Host, host: Host, address: str) -> None:
    """Give the host a card, whose other end in the switch has the host's name."""
    pid = str(host.holder.pid)
    switch.run("ip", "link", "add", "name", host.name, "type", "veth", "peer", "name", "eth0", "netns", pid)
    host.run("ip", "address", "add", address, "dev", "eth0")
    host.run("ip", "link", "set", "eth0", "up")
    host.run(sys.executable, str(_WIRE), "eth0")
    switch.run("ip", "link", "set", host.name, "up")


@contextlib.contextmanager
def _speaking(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a process that says one line when it is ready; end it, by its id, after."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    assert process.stdout is not None
    with process.stdout:
        try:
            said = process.stdout.readline().strip()
            if said not in ("held", "carrying"):
                raise RuntimeError(f"{command[0]} did not start: {said}")
            yield process
        finally:
            process.kill()
            process.wait(_PATIENCE_S)
