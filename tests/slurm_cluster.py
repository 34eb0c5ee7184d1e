"""A real Slurm on this machine: two nodes in the namespaces of two hosts, under a configuration of its own.

Everything runs in the foreground of processes that this module starts and ends; nothing of the system's own Slurm is read or written.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stackproof.base import processes

from .ranks.namespaces import Host, refusal, two_hosts

_TOOLS = ("slurmctld", "slurmd", "munged", "sbatch", "sinfo", "scontrol")
_PATIENCE_S = 60.0
_CONFIGURATION = """\
ClusterName=tests
SlurmctldHost=alpha
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/linear
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdParameters=config_overrides
NodeName=alpha,beta CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Return why no Slurm can be started here, or nothing."""
    if absent := [tool for tool in _TOOLS if not _tool(tool)]:
        return f"a real Slurm needs {', '.join(absent)} (Debian: slurmctld, slurmd, slurm-client, munge)"
    return refusal()


def _tool(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


@dataclass
class Cluster:
    """A running Slurm; commands go to it from its first node."""

    alpha: Host
    folder: Path
    mark: str

    def call(self, *command: str, environment: Mapping[str, str] | None = None, seconds: float = _PATIENCE_S) -> str:
        """Run a command of Slurm on the first node and return what it said.

        Raises:
            RuntimeError: it failed.
        """
        full = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), **(environment or {})}
        ended = subprocess.run(
            self.alpha.inside(command), env=full, capture_output=True, text=True, timeout=seconds, check=False
        )
        if ended.returncode:
            raise RuntimeError(f"{command[0]}: {ended.stderr.strip() or ended.stdout.strip()}")
        return ended.stdout.strip()

    def submit(
        self, template: Path, arguments: list[str], environment: Mapping[str, str], seconds: float
    ) -> tuple[str, str]:
        """Submit a batch script with arguments and wait; return how the job ended, as `STATE EXITCODE`, and what it wrote."""
        output = self.folder / "job.out"
        carried = {"OMP_NUM_THREADS": "1", processes.MARK: self.mark, **environment}
        job = self.call("sbatch", "--parsable", f"--output={output}", str(template), *arguments, environment=carried)
        until = time.monotonic() + seconds
        while (state := self._state(job)).split()[0] in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING"):
            if time.monotonic() > until:
                raise RuntimeError(f"job {job} is {state} after {seconds:.0f} s: {processes.last_lines(output, 20)}")
            time.sleep(0.5)
        return state, output.read_text(errors="replace") if output.exists() else ""

    def _state(self, job: str) -> str:
        shown = dict(entry.split("=", 1) for entry in self.call("scontrol", "show", "job", job).split() if "=" in entry)
        return f"{shown['JobState']} {shown['ExitCode']}"


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """Start munge, the controller and two nodes; end them after."""
    (folder / "state").mkdir()
    (folder / "slurm.conf").write_text(_CONFIGURATION.format(folder=folder), encoding="utf-8")
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n", encoding="utf-8")
    mark, started = processes.new_mark(), list[subprocess.Popen[bytes]]()
    with two_hosts(folder) as network:
        alpha, beta = network.hosts
        cluster = Cluster(alpha, folder, mark)
        try:
            started.append(_daemon(cluster, alpha, "munged", *_munge(folder)))
            _await(lambda: (folder / "munge.socket").exists(), "munged", folder)
            started.append(_daemon(cluster, alpha, "slurmctld", "-D"))
            started += [_daemon(cluster, host, "slurmd", "-D", "-N", host.name) for host in (alpha, beta)]
            _await(lambda: _idle(cluster) == 2, "slurm", folder)
            yield cluster
        finally:
            processes.end_tree(mark)
            for process in started:
                process.wait(_PATIENCE_S)


def _munge(folder: Path) -> list[str]:
    """Return munged's arguments, with a key of this cluster's own."""
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(128))
    files = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    return [
        "--foreground",
        "--force",
        f"--key-file={key}",
        *(f"--{name}={folder}/munge.{end}" for name, end in files.items()),
    ]


def _daemon(cluster: Cluster, host: Host, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {"SLURM_CONF": str(cluster.folder / "slurm.conf")}
    log = cluster.folder / f"{name}-{host.name}.out"
    return host.start([_tool(name) or name, *arguments], log, environment, cluster.mark)


def _idle(cluster: Cluster) -> int:
    try:
        return int(cluster.call("sinfo", "--noheader", "--states=idle", "--format=%D") or 0)
    except RuntimeError:
        return 0


def _await(holds: Callable[[], bool], what: str, folder: Path) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not holds():
        if time.monotonic() > until:
            said = {log.name: processes.last_lines(log, 6) for log in sorted(folder.glob("*.out"))}
            raise RuntimeError(f"{what} did not come up: {said}")
        time.sleep(0.2)
