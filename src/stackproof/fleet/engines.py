"""What other engines are given: the lines to type for ClusterShell and SSH, and the manifest of a Job for Kubernetes.

Everything in them comes from the plan and from flags, never from a record; names of hosts were held against what a name can be.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stackproof.fleet import rules
from stackproof.fleet.plan import FleetPlan
from stackproof.record.store import slug

ENGINES = ("slurm", "ssh", "kubernetes")
HOSTS = "hosts.txt"
MANIFEST = "job.json"
_FANOUT = 64
_MOUNT = "/sweep"


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
    """Return what people type without a scheduler: with ClusterShell, or with SSH alone. We start neither."""
    listed = shlex.quote(str(folder / HOSTS))
    remote = shlex.join(card_words(python, str(folder), plan.stack))
    return [
        f"clush -R exec --hostfile {listed} --fanout {_FANOUT} ssh -n -o BatchMode=yes %host {shlex.quote(f'{remote} --host %host')}",
        f"xargs -P {_FANOUT} -I HOST ssh -n -o BatchMode=yes HOST {shlex.quote(f'{remote} --host HOST')} < {listed}",
    ]


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
