"""Environments only: one session per stack and verb, generated from stacks/; no pins and no logic here."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "src"))

from stackproof.base.errors import Refusal  # noqa: E402
from stackproof.drill import table  # noqa: E402
from stackproof.stack import environments, hosts, stacks  # noqa: E402

nox.needs_version = ">=2024.4.15"
nox.options.sessions = ["smoke"]

# Containers often forbid bytecode. Ours goes below .nox and into ignored folders; without it half of a check's time is compiling torch.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# After Ctrl-C a verb ends its ranks and writes its record; nox would give it 0.3 s. A signal to nox alone does not reach the
# verb by itself: nox passes it on once the first time is over, and CI systems kill about ten seconds after asking.
_GROUP_S = 0.5
_PATIENCE_S = 15.0

# What CI systems send would end nox alone and leave the verb running; as Ctrl-C, nox ends the verb first.
signal.signal(signal.SIGTERM, signal.default_int_handler)


@dataclass(frozen=True)
class Verb:
    """A verb that every stack has a session for."""

    name: str
    summary: str
    rehearsed: bool


# What the judging verbs need, in an environment of their own.
JUDGES = (
    "scipy>=1.13,<2",
    "rich>=13,<16",
    "fastjsonschema>=2.20,<3",
    "packaging>=24",
    "tomli>=2; python_version < '3.11'",
)
# Other people's tools that judge the same seconds in a calibration, and what draws its figure.
OTHERS = ("asv==0.6.6", "asv_runner>=0.3.2,<0.4", "pyperf>=2.9,<3", "pytest-benchmark>=5,<6", "matplotlib>=3.8,<4")
# Workflows are held against their schema and against what is known to be unsafe in them.
WORKFLOW_LINTERS = ("zizmor>=1.32,<2", "check-jsonschema>=0.33,<1")
LINTERS = ("ruff>=0.17,<0.18", "mypy>=2.4,<2.5", "import-linter>=2.16,<3")

VERBS = (
    Verb("smoke", "Prove that {stack} is alive: {title}", rehearsed=False),
    Verb("verify", "Prove that {stack} computes right: every suite", rehearsed=False),
    Verb("ddp", "Prove that ranks of {stack} work together, and fail in time", rehearsed=False),
    Verb(
        "bench",
        "Measure {stack}, everything verified before it is timed: -- --profile fast|regular|full",
        rehearsed=False,
    ),
    Verb("agree", "Measure {stack} side by side with other people's tools", rehearsed=False),
    Verb("rehearse", "Smoke run of {stack} on the CPU, with upstream builds of its versions", rehearsed=True),
)


def _run(session: nox.Session, stack: stacks.Stack, verb: Verb, *arguments: str) -> None:
    """Build the environment and call the verb."""
    python = _prepare(session, stack, rehearsed=verb.rehearsed or "--rehearsed" in session.posargs)
    command = [str(python), "-m", "stackproof", verb.name, "--stack", stack.name, *arguments, *session.posargs]
    session.run(*command, external=True, interrupt_timeout=_GROUP_S, terminate_timeout=_PATIENCE_S)


def _prepare(session: nox.Session, stack: stacks.Stack, *, rehearsed: bool) -> Path:
    """Refuse a host without the device before any download, then build the environment; return its interpreter."""
    chosen = stack.rehearse() if rehearsed else stack
    found = hosts.inspect(chosen)
    if not found.present:
        raise found.refusal()
    return environments.prepare(chosen, session.log)


def _refusing(session: nox.Session, action: Callable[[], None]) -> None:
    """Let a refusal end the session with its one sentence."""
    try:
        action()
    except Refusal as refusal:
        session.error(f"{refusal} (exit code {refusal.exit_code})")


def _generate(name: str, verb: Verb) -> None:
    """Register the session NAME-VERB; a stack that is broken still has its sessions, and they say why."""

    def session_of_stack(session: nox.Session) -> None:
        _refusing(session, lambda: _run(session, stacks.load(name), verb))

    session_of_stack.__doc__ = verb.summary.format(stack=name, title=_title(name))
    nox.session(name=f"{name}-{verb.name}", python=False, default=False)(session_of_stack)


def _generate_asv(name: str) -> None:
    """Register the session NAME-asv: asv, in its own environment, measuring in the stack's."""

    def session_of_stack(session: nox.Session) -> None:
        def action() -> None:
            _prepare(session, stacks.load(name), rehearsed="--rehearsed" in session.posargs)
            _run_asv(session, "--stack", name)

        _refusing(session, action)

    session_of_stack.__doc__ = (
        f"Keep the history of {name} with asv: nox -s {name}-asv -- run|continuous|compare|publish|check ..."
    )
    nox.session(name=f"{name}-asv", python=False, default=False)(session_of_stack)


def _run_asv(session: nox.Session, *options: str) -> None:
    command = [str(environments.prepare_asv(session.log)), "-m", "stackproof", "asv", *options, *session.posargs]
    session.run(*command, external=True, interrupt_timeout=_GROUP_S, terminate_timeout=_PATIENCE_S)


@nox.session(python=False, default=False)
def asv(session: nox.Session) -> None:
    """Read histories with asv, without a stack: nox -s asv -- compare|publish|preview ..."""
    _refusing(session, lambda: _run_asv(session))


def _title(name: str) -> str:
    try:
        return stacks.load(name).title
    except Refusal as refusal:
        return f"broken: {refusal}"


@nox.session(python=False)
def smoke(session: nox.Session) -> None:
    """Smoke run of the stack that this host has; the CPU if it has no card."""

    def action() -> None:
        stack = hosts.preferred().stack
        session.log(f"this host has: {stack.name} ({stack.title})")
        _run(session, stack, VERBS[0])

    _refusing(session, action)


@nox.session(name="ddp-soak", python=False, default=False)
def ddp_soak(session: nox.Session) -> None:
    """Fifty clean launches of two ranks in a row, on the stack that this host has: no false alarm (minutes)."""
    ddp = next(verb for verb in VERBS if verb.name == "ddp")
    _refusing(session, lambda: _run(session, hosts.preferred().stack, ddp, "--suite", "soak"))


for _verb in VERBS:
    for _name in stacks.names():
        _generate(_name, _verb)

for _name in stacks.names():
    _generate_asv(_name)


def _call(session: nox.Session, verb: str) -> None:
    """Call a verb that needs no stack's environment, under nox's own Python."""
    command = [sys.executable, "-m", "stackproof", verb, *session.posargs]
    session.run(*command, external=True, env={"PYTHONPATH": str(ROOT / "src")})


@nox.session(python=False, default=False)
def doctor(session: nox.Session) -> None:
    """Say what this box is and what is wrong with it: stacks, cards, environments, variables."""
    _call(session, "doctor")


@nox.session(python=False, default=False)
def lock(session: nox.Session) -> None:
    """Re-pin stacks from their requirements.in: nox -s lock -- NAME ..."""
    _call(session, "lock")


def _pytest(session: nox.Session, *arguments: str) -> None:
    """Run our own tests in the environment of the cpu stack."""

    def action() -> None:
        python = environments.prepare(stacks.load("cpu"), session.log)
        uv = environments.find_uv(session.log).parent  # tests of locks and builds need it
        path = os.pathsep.join((str(uv), os.environ.get("PATH", os.defpath)))
        asv_python = str(environments.prepare_asv(session.log))
        env = {"STACKPROOF_NOX": sys.executable, "STACKPROOF_ASV": asv_python, "PATH": path}  # tests run both
        command = [str(python), "-m", "pytest", *arguments, *session.posargs]
        session.run(*command, external=True, env=env, interrupt_timeout=_GROUP_S, terminate_timeout=_PATIENCE_S)

    _refusing(session, action)


# What compares variants: the statistics live in an environment of their own, each side in its stack's.
COMPARING = {
    "gate": "Is the head worse than the base on {stack}: nox -s {stack}-gate -- --base REF",
    "sweep": "Which setting is faster than the defaults on {stack}: nox -s {stack}-sweep -- --env NAME=V1,V2",
}


def _generate_comparing(name: str, verb: str) -> None:
    """Register the session NAME-VERB."""

    def session_of_stack(session: nox.Session) -> None:
        def action() -> None:
            stack = stacks.load(name)
            found = hosts.inspect(stack.rehearse() if "--rehearsed" in session.posargs else stack)
            if not found.present:
                raise found.refusal()
            _judge(session, JUDGES, verb, "--stack", name)

        _refusing(session, action)

    session_of_stack.__doc__ = COMPARING[verb].format(stack=name)
    nox.session(name=f"{name}-{verb}", default=False)(session_of_stack)


def _judge(session: nox.Session, packages: tuple[str, ...], verb: str, *arguments: str) -> None:
    session.install(*packages)
    command = ["python", "-m", "stackproof", verb, *arguments, *session.posargs]
    env = {"PYTHONPATH": str(ROOT / "src")}
    session.run(*command, env=env, interrupt_timeout=_GROUP_S, terminate_timeout=_PATIENCE_S)


for _name in stacks.names():
    for _comparing in COMPARING:
        _generate_comparing(_name, _comparing)


@nox.session(name="gate-calibration", default=False)
def gate_calibration(session: nox.Session) -> None:
    """How often the gate cries for nothing, and what it finds: -- [--gates 5] [--minutes 60] [--continue] (a night, quiet)."""
    page = str(ROOT / "docs" / "gate.md")
    session.install(*JUDGES, *OTHERS)
    command = ["python", "-m", "tools.gate_calibration", "--stack", "cpu", "--page", page, *session.posargs]
    env = {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    session.run(*command, env=env, interrupt_timeout=_GROUP_S, terminate_timeout=_PATIENCE_S)


@nox.session(name="gate-tests", default=False)
def gate_tests(session: nox.Session) -> None:
    """Test the gate where its statistics are, with live sides in the cpu stack's environment, each fault planted (minutes)."""

    def action() -> None:
        python = environments.prepare(stacks.load("cpu"), session.log)
        session.install(*JUDGES, *OTHERS, "pytest>=8.2,<10")
        env = {"PYTHONPATH": str(ROOT / "src"), "STACKPROOF_SIDE": str(python)}
        command = [
            "python",
            "-m",
            "pytest",
            "-p",
            "no:benchmark",
            *(session.posargs or ["tests/gate", "tests/commands/test_gate.py"]),
        ]
        session.run(*command, env=env, interrupt_timeout=_GROUP_S, terminate_timeout=_PATIENCE_S)

    _refusing(session, action)


@nox.session(python=False, default=False)
def tests(session: nox.Session) -> None:
    """Test stackproof itself, in the environment of the cpu stack."""
    _pytest(session, "-n", "2", "-p", "no:benchmark", "-m", "not real_asv and not two_hosts and not slurm")


@nox.session(python=False, default=False)
def drill(session: nox.Session) -> None:
    """Inject every fault that is claimed to be caught, and see each caught by name: -- --fast | --only ID (minutes)."""

    def action() -> None:
        drilled = [stacks.load(name) for name in table.load().stacks]
        python, *_ = [environments.prepare(one, session.log) for one in drilled if hosts.inspect(one).present]
        command = [str(python), "-m", "stackproof", "drill", *session.posargs]
        session.run(*command, external=True, interrupt_timeout=_GROUP_S, terminate_timeout=_PATIENCE_S)

    _refusing(session, action)


@nox.session(name="asv-tests", python=False, default=False)
def asv_tests(session: nox.Session) -> None:
    """Test the history with asv itself: two drivers at one commit, a loss that is flagged (minutes)."""
    _pytest(session, "-m", "real_asv")


@nox.session(name="two-hosts", python=False, default=False)
def two_hosts(session: nox.Session) -> None:
    """Train on two hosts made of network namespaces, delay and cut the wire between them (minutes; needs root)."""
    _pytest(session, "-m", "two_hosts")


@nox.session(python=False, default=False)
def slurm(session: nox.Session) -> None:
    """Start a real Slurm on this host and run the batch templates of slurm/ on it (minutes; needs Slurm and root)."""
    _pytest(session, "-m", "slurm")


@nox.session(default=False)
def triage(session: nox.Session) -> None:
    """Say what is wrong with a run, from its logs: nox -s triage -- LOG ... [--expect efa]."""
    session.install(*nox.project.load_toml(ROOT / "pyproject.toml")["project"]["dependencies"])
    command = ["python", "-m", "stackproof", "triage", *session.posargs]
    session.run(*command, env={"PYTHONPATH": str(ROOT / "src")})


@nox.session(name="triage-score", default=False)
def triage_score(session: nox.Session) -> None:
    """Score triage on logs of public threads, into docs/triage.md; -- --work prints the half that may be looked at, log by log."""
    session.install(*nox.project.load_toml(ROOT / "pyproject.toml")["project"]["dependencies"])
    session.run("python", "-m", "tools.triage_score", *session.posargs, env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"})


@nox.session(default=False)
def lint(session: nox.Session) -> None:
    """Check style and types."""

    def action() -> None:
        python = environments.prepare(stacks.load("cpu"), session.log)  # mypy reads torch's own types there
        session.install(*LINTERS, *WORKFLOW_LINTERS)
        session.run("ruff", "check", ".")
        session.run("ruff", "format", "--check", ".")
        session.run("lint-imports", env={"PYTHONPATH": str(ROOT / "src")})
        session.run("mypy", "--python-executable", str(python))
        workflows = sorted(str(path.relative_to(ROOT)) for path in (ROOT / ".github" / "workflows").glob("*.yml"))
        session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
        session.run("zizmor", "--offline", "--quiet", *workflows)

    _refusing(session, action)
