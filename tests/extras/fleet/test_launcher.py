"""How a command is run on a host: words of the user's that say where, and nothing from a record."""

from __future__ import annotations

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.fleet.launcher import Launcher


def of(text: str) -> Launcher:
    """Read the words of `--launch`."""
    return Launcher.of(text, "python", "cpu", "tiny", 1.0, 5.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "ssh host",
        "ssh 'x {host}",
        "srun {Host}",
        "env {host}\nid",
        "env {host}\x00",
        "env \x1b[31m{host}",
        "'' {host}",
    ],
)
def test_a_launcher_must_say_where(text: str) -> None:
    with pytest.raises(Refusal, match="--launch"):
        of(text)


def test_a_program_that_is_not_here_is_told_before_any_duel() -> None:
    with pytest.raises(Refusal, match="'/nope/ssh' is no program here"):
        of("/nope/ssh {host}")


@pytest.mark.parametrize(
    ("host", "card"), [("-oProxyCommand=x", "0"), ("a b", "0"), ("n1", "0; id"), ("n1", "-1"), ("n1", "")]
)
def test_no_command_is_made_of_what_is_no_host_and_no_card(host: str, card: str) -> None:
    with pytest.raises(Refusal):
        of("env {host}").command(host, card)
