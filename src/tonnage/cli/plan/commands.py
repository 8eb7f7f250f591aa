"""The commands that carry a plan out by hand: a script that moves one pod after the other and stops at a failure."""

from tonnage.explain.owners import word
from tonnage.plan.defrag.record import DefragPlan, PlannedMove

_FUNCTIONS = """\
set -eu
closed=
trap '[ -z "$closed" ] || kubectl uncordon "$closed"' EXIT
evict() {
  printf '{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"%s","namespace":"%s"}}' "$2" "$1" |
    kubectl create --raw "/api/v1/namespaces/$1/pods/$2/eviction" -f -
  kubectl -n "$1" wait --for=delete "pod/$2" --timeout=10m
}
move() {
  closed=$3
  kubectl cordon "$3"
  evict "$1" "$2"
  kubectl uncordon "$3"
  closed=
}"""
_NOT_BEFORE = """\
if [ "$(date -u +%Y%m%d%H%M%S)" -lt {digits} ]; then
  echo "not before {time}" >&2
  exit 1
fi"""


def kubectl_commands(plan: DefragPlan) -> str:
    """The script."""
    lines = [
        "#!/bin/sh",
        f"# Made at {plan.made_at}, to gain {plan.gain:.2f} {plan.unit} for {plan.gpu_hours_lost:.1f} lost GPU-hours.",
        "# While a pod is evicted its node takes no pods, so that the pod that its controller makes goes elsewhere.",
        "# Where it goes is up to its scheduler: look before you go on, and plan anew if it is not the node below.",
        _FUNCTIONS,
    ]
    if plan.not_before is not None:
        digits = "".join(char for char in plan.not_before if char.isdigit())
        lines.append(_NOT_BEFORE.format(digits=digits, time=plan.not_before))
    return "\n".join([*lines, *map(_move, plan.moves)]) + "\n"


def _move(move: PlannedMove) -> str:
    """One move. The node of a pod that goes to other cards of it must stay open."""
    namespace, _, name = move.pod.partition("/")
    pod = f"{word(namespace)} {word(name)}"
    command = f"evict {pod}" if move.node == move.to else f"move {pod} {word(move.node)}"
    return f"{command}  # {move.step}: to {word(move.to)}"
