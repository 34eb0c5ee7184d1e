"""What provenance knows, as JSON, asked of the stack's own interpreter before asv measures anything in it.

python -m stackproof.history.probe STACK [rehearsed]
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from stackproof.base import files, processes
from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError
from stackproof.bench.subjects import profile
from stackproof.history.leaf import DEFAULT_PROFILE, PROFILE
from stackproof.record.records import Figure
from stackproof.runner.supervise import variables_of
from stackproof.stack import environment_proof, hosts, provenance, stacks

_ASKED_S = 120.0
"""Of a quiet host; a crowded one gets as many times as much."""
_KINDS: dict[int, type[Refusal]] = {3: StackUnavailableError, 4: EnvironmentMismatchError}


def ask(python: Path, stack: stacks.Stack, environment: dict[str, str]) -> dict[str, Figure]:
    """Return the facts of a stack, asked of its interpreter in a process of its own.

    Raises:
        Refusal: what the process said, with its exit code.
    """
    environment = {**environment, "PYTHONPATH": stack.path(environment.get("PYTHONPATH", ""))}
    command = [str(python), "-m", "stackproof.history.probe", stack.name, *(["rehearsed"] if stack.rehearsed else [])]
    seconds = _ASKED_S * processes.crowding()
    ended = processes.run(command, seconds=seconds, environment=environment)
    if ended.timed_out or ended.code in (processes.NOT_FOUND, processes.NOT_EXECUTABLE):
        why = f"no answer in {seconds:.0f} s, at {processes.load()}" if ended.timed_out else ended.errors
        raise StackUnavailableError(f"{python}: does not answer what it is ({why})")
    if not ended.ok:
        lines = [line for line in ended.errors.splitlines() if line.strip()]
        sentence = "\n".join(line.removeprefix("stackproof: ") for line in lines[-12:]) or "it said nothing"
        raise _KINDS.get(ended.code, Refusal)(sentence)
    figures: dict[str, Figure] = files.parse_json(ended.output.splitlines()[-1], f"what {python} says of its stack")
    return figures


def facts(name: str, rehearsed: bool) -> dict[str, Figure]:
    """Return what is known of a stack in this environment; refuse an environment that is not its lock."""
    from stackproof.device import threads  # imports torch, which only the stack's interpreter has
    from stackproof.device.devices import torch_facts

    stack = stacks.load(name).rehearse() if rehearsed else stacks.load(name)
    availability = hosts.inspect(stack)
    if not availability.present:
        raise availability.refusal()
    figures = {**provenance.host_facts(stack), **provenance.proof_facts(environment_proof.prove(stack))}
    os.environ.update(variables_of(stack))  # after they were told from what the user has set
    threads.choose(profile(os.environ.get(PROFILE, DEFAULT_PROFILE)).preset)  # as what is measured gets them
    return {**figures, **torch_facts(stack)}


def _main(arguments: list[str]) -> int:
    try:
        print(json.dumps(facts(arguments[0], "rehearsed" in arguments[1:])))  # noqa: T201
    except Refusal as refusal:
        print(f"stackproof: {refusal}", file=sys.stderr)  # noqa: T201
        return refusal.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
