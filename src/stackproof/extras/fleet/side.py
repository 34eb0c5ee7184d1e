"""A host in a duel: proves a subject, runs blocks when it is asked, and replays products; answers go out on what was its standard output.

Started by `stackproof fleet side` through whatever launches a command on a host; it ends when nobody asks any more.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from typing import Any

from stackproof.base import rpc
from stackproof.base.errors import Refusal
from stackproof.base.rpc import Message
from stackproof.device import threads
from stackproof.extras.fleet import card, replay, rules
from stackproof.gate.side import Side, failed, within
from stackproof.stack import environment_proof, provenance


class DuelSide(Side):
    """What a gate's side can do, and the replay."""

    def __init__(self, stack: str, profile: str, device: str, host: str) -> None:
        chosen = rules.profile(profile)
        super().__init__(host, stack, False, chosen.benchmarks, device, "", "")
        self.profile = chosen

    def facts(self) -> Message:
        """Use the device once, and say in what state this host is now: what its record said, and its partner's must equal."""
        own = provenance.host_facts(self.stack) | provenance.proof_facts(environment_proof.prove(self.stack))
        return {**own, **self.hello()["facts"], **card.set_facts()}

    def replay(self, kernel: str, pattern: str, products: int) -> Message:
        """Replay one kind for so many products; return the digest of the right ones, and how many were odd."""
        known = replay.kinds(rules.load().replay, self.profile.name, self.stack.precisions)
        kind = next((one for one in known if (one.name, one.pattern) == (kernel, pattern)), None)
        if kind is None:
            raise Refusal(f"nothing is replayed as '{kernel}' with '{pattern}'")
        with self.device.current(), threads.chosen(self.profile.name), replay.deterministic():
            told = replay.cold(kind, self.device, 0.0)
            while told.products < products:
                replay.hot(told, self.device, self.profile.replay)
        return {"digest": replay.digest(told.first), "products": told.products, "odd": told.odd}


def main(words: list[str]) -> int:
    """Serve; the argument is a JSON object (`far.FarSide`)."""
    faulthandler.enable()
    told: dict[str, Any] = json.loads(words[0])
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # whatever libraries print is no answer
        try:
            side = DuelSide(**told)
            facts = side.facts()
        except Refusal as refusal:
            rpc.say(answers, {"refused": str(refusal), "exit_code": refusal.exit_code})
            return refusal.exit_code
        rpc.say(answers, {"facts": facts})
        rpc.serve(side, sys.stdin, answers, failed, within)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
