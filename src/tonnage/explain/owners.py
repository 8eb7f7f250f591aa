"""The object to change for a pod, and the commands that do it: a pod's resources cannot be changed in place."""

import json
from collections.abc import Sequence
from typing import Any

from tonnage.cluster.jobs.job import Job
from tonnage.explain.holders import owner_of
from tonnage.explain.record import PodHolding, RelocatedPod
from tonnage.model.pod import Pod

_PATCHED = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
"""Kinds whose template may be changed, after which they make their pods anew."""
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")


def word(text: str) -> str:
    """A text as one word of a shell; names that no API server accepts are harmless in it."""
    printed = "".join(c if c.isprintable() else "?" for c in text)
    if printed and _SAFE.issuperset(printed):
        return printed
    quoted = printed.replace("'", "'\"'\"'")
    return f"'{quoted}'"


def whose(pod: Pod) -> str:
    """Where a change of the pod has to be made, for a sentence."""
    owner = owner_of(pod.metadata)
    return "the pod" if owner is None else f"the template of {owner[0]} {owner[1]}"


def change_commands(pods: Sequence[Pod], patch: dict[str, Any]) -> list[str]:
    """The commands that change pods of one job by a strategic merge patch: on their owner, or by making them anew."""
    pod = pods[0]
    namespace = word(pod.metadata.namespace or "default")
    owner = owner_of(pod.metadata)
    if owner is not None and owner[0] in _PATCHED:
        text = word(_text({"spec": {"template": patch}}))
        return [f"kubectl -n {namespace} patch {owner[0].lower()} {word(owner[1])} -p {text}"]
    if owner is not None:
        return [
            f"# edit the pod template of {owner[0]} {word(owner[1])} in {namespace}, and create it anew: "
            f"merge {_text(patch)}"
        ]
    names, text = " ".join([word(one.metadata.name) for one in pods]), word(_text(patch))
    return [
        f"kubectl -n {namespace} get pod {names} -o json | kubectl patch -f - --local -p {text} -o json "
        "| kubectl replace --force -f -"
    ]


def group_commands(job: Job, patch: dict[str, Any]) -> list[str]:
    """The commands that change a job's PodGroup."""
    namespace, name = word(job.namespace), word(job.name)
    return [f"kubectl -n {namespace} patch podgroup {name} --type=merge -p {word(_text(patch))}"]


def move_commands(pods: Sequence[RelocatedPod], nodes: Sequence[str]) -> list[str]:
    """The commands that move pods: their nodes are closed until they have left, for which the deletion waits."""
    names = " ".join([word(node) for node in nodes])
    closing, opening = ([f"kubectl {verb} {names}"] if nodes else [] for verb in ("cordon", "uncordon"))
    return [*closing, *delete_commands(pods), *opening]


def delete_commands(pods: Sequence[PodHolding] | Sequence[RelocatedPod]) -> list[str]:
    """The commands that delete pods, one for each namespace."""
    by_namespace: dict[str, list[str]] = {}
    for one in pods:
        namespace, _, name = one.pod.partition("/")
        by_namespace.setdefault(namespace, []).append(word(name))
    return [f"kubectl -n {word(namespace)} delete pod {' '.join(names)}" for namespace, names in by_namespace.items()]


def _text(patch: dict[str, Any]) -> str:
    return json.dumps(patch, separators=(",", ":"), ensure_ascii=False)
