"""What other engines are given: the lines to type for ClusterShell and SSH, and the manifest of a Job for Kubernetes.

Everything in them comes from the plan and from flags, never from a record; names of hosts were held against what a name can be.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stackproof.base.errors import Refusal
from stackproof.base.text import plain
from stackproof.extras.fleet import rules
from stackproof.extras.fleet.plan import FleetPlan
from stackproof.record.store import slug

ENGINES = ("slurm", "ssh", "kubernetes")
HOSTS = "hosts.txt"
MANIFEST = "job.json"
_FANOUT = 64
_MOUNT = "/sweep"
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_IMAGE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?::[0-9]+)?(?:/[A-Za-z0-9._-]+)*(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?:@[a-z0-9]+:[0-9a-f]{32,128})?"
)
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(?:\.{_LABEL.pattern})*")


@dataclass(frozen=True)
class PodTerms:
    """What a pod is given: its image, the claim of the volume that all share, and what it asks of its node (`nvidia.com/gpu=8`)."""

    image: str
    claim: str
    resources: Mapping[str, str]
    namespace: str = ""


def card_words(python: str, folder: str, stack: str) -> list[str]:
    """Return the words that let a host answer."""
    return [python, "-m", "stackproof", "fleet", "card", folder, "--stack", stack]


def hosts_file(plan: FleetPlan) -> str:
    """Return the hosts, a line each, in the order of the plan."""
    return "".join(f"{rules.host(name)}\n" for name in plan.hosts)


def ssh_lines(plan: FleetPlan, folder: Path, python: str) -> list[str]:
    """Return what people type without a scheduler: with ClusterShell, or with SSH alone. We start neither.

    Each replaces a word by the host: `%host`, and for xargs one that stands nowhere else in the line.

    Raises:
        Refusal: the folder or the interpreter holds ClusterShell's own word.
    """
    words = card_words(python, str(folder), plan.stack)
    if bad := next((word for word in words if "%" in word), None):
        raise Refusal(
            f"'{plain(bad, 120, lines=False)}' holds a '%', which ClusterShell replaces; name a path without it"
        )
    listed, remote = shlex.quote(str(folder / HOSTS)), shlex.join(words)
    place = next(name for name in _placeholders() if name not in f"{listed}{remote}")
    return [
        f"clush -R exec --hostfile {listed} --fanout {_FANOUT} ssh -n -o BatchMode=yes %host {shlex.quote(f'{remote} --host %host')}",
        f"xargs -P {_FANOUT} -I {place} ssh -n -o BatchMode=yes {place} {shlex.quote(f'{remote} --host {place}')} < {listed}",
    ]


def _placeholders() -> Iterator[str]:
    yield "HOST"
    yield from (f"HOST{number}" for number in itertools.count(1))


def label(option: str, text: str, most: int = 63) -> str:
    """Return a name as Kubernetes takes it (RFC 1123), a subdomain where it may be longer than a label.

    Raises:
        Refusal: it is none.
    """
    pattern = _LABEL if most == 63 else _SUBDOMAIN
    if not pattern.fullmatch(text) or len(text) > most:
        raise Refusal(
            f"{option} '{plain(text, 80, lines=False)}' is no name of Kubernetes (RFC 1123); write small letters, digits and hyphens, "
            f"{most} at most, beginning and ending with a letter or a digit"
        )
    return text


def image(text: str) -> str:
    """Return the name of an image: a path with a host, a tag or a digest, and no blank, quote or control character.

    Raises:
        Refusal: it is none.
    """
    if not _IMAGE.fullmatch(text):
        raise Refusal(
            f"--image '{plain(text, 80, lines=False)}' is no name of an image; write it as registry/name:tag or name@sha256:digest"
        )
    return text


def manifest(plan: FleetPlan, terms: PodTerms) -> str:
    """Return the manifest of a Job with a pod for each host, no two on one, each told by Kubernetes where it is.

    Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/
    """
    name = f"stackproof-{slug(plan.fleet)[:40].strip('-') or 'fleet'}"
    labels = {"app.kubernetes.io/name": "stackproof-fleet", "stackproof/sweep": name[:60].strip("-")}
    meta = {"name": name, "labels": labels, **({"namespace": terms.namespace} if terms.namespace else {})}
    spec = {
        "completions": len(plan.hosts), "parallelism": len(plan.hosts), "completionMode": "Indexed",
        "backoffLimit": len(plan.hosts), "activeDeadlineSeconds": int(120 * rules.profile(plan.profile).deadline),
        "template": {"metadata": {"labels": labels}, "spec": _pod(plan, terms, labels)},
    }  # fmt: skip
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}, indent=1) + "\n"


def _pod(plan: FleetPlan, terms: PodTerms, labels: Mapping[str, str]) -> dict[str, Any]:
    resources = {"limits": dict(terms.resources), "requests": dict(terms.resources)}
    container = {
        "name": "card", "image": terms.image, "command": card_words("python3", _MOUNT, plan.stack),
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "volumeMounts": [{"name": "sweep", "mountPath": _MOUNT}], **({"resources": resources} if terms.resources else {}),
    }  # fmt: skip
    return {
        "restartPolicy": "Never", "containers": [container],
        "volumes": [{"name": "sweep", "persistentVolumeClaim": {"claimName": terms.claim}}],
        "affinity": _affinity(plan, labels),
    }  # fmt: skip


def _affinity(plan: FleetPlan, labels: Mapping[str, str]) -> dict[str, Any]:
    """Only these hosts, and one pod on each."""
    named = {"key": "kubernetes.io/hostname", "operator": "In", "values": [rules.host(name) for name in plan.hosts]}
    apart = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": "kubernetes.io/hostname"}
    wanted = "requiredDuringSchedulingIgnoredDuringExecution"
    return {
        "nodeAffinity": {wanted: {"nodeSelectorTerms": [{"matchExpressions": [named]}]}},
        "podAntiAffinity": {wanted: [apart]},
    }
