"""What a rank is told, as a JSON file. Needs no torch."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .launchers import Placement


@dataclass(frozen=True)
class Spec:
    """What every rank is told, as a JSON file."""

    program: str
    stack: str
    rehearsed: bool
    backend: str
    cards: tuple[int, ...]
    arguments: dict[str, Any]
    folder: str
    deadline_s: float
    until: float
    """When the deadline passes, in seconds since the epoch: ranks start later than the launcher and must not think they have longer."""
    within_s: float = 0.0
    """What the program may take once the group has formed; 0 leaves it the whole deadline."""
    on_host: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that each rank sets; `{file}` stands for a log of its own."""

    @property
    def remaining_s(self) -> float:
        """Seconds that are left, at least one."""
        return max(1.0, self.until - time.time())

    def save(self) -> Path:
        """Write the specification into its folder."""
        path = Path(self.folder) / "spec.json"
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: Path) -> Spec:
        """Read the specification that an agent or a rank was given."""
        values = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**values, "cards": tuple(values["cards"])})


@dataclass(frozen=True)
class Invitation:
    """What a rank is told by its supervisor, as a JSON file."""

    spec: Spec
    place: Placement
    address: str
    checked: bool
    oversubscribe: bool

    def save(self) -> Path:
        """Write it into the folder; several ranks may share that."""
        path = Path(self.spec.folder) / f"rank{self.place.rank}.invitation.json"
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: Path) -> Invitation:
        """Read what `save` wrote."""
        values = json.loads(path.read_text(encoding="utf-8"))
        spec = Spec(**{**values["spec"], "cards": tuple(values["spec"]["cards"])})
        return cls(**{**values, "spec": spec, "place": Placement(**values["place"])})
