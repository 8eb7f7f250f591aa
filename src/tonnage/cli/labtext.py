"""The report of a lab that runs: as text, with commands to try, and as data."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tonnage.lab.control_plane import ControlPlane
    from tonnage.lab.kubelet_node import KubeletNode
    from tonnage.lab.program import Program
    from tonnage.lab.schedulers import StartedServer

_VOLCANO = ("podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh")
"""The kinds of samples that only the batch scheduler can show."""


class RealNode(NamedTuple):
    """A node whose pods are executed."""

    node: "KubeletNode"
    pod: Path
    """A manifest to try it with."""


class RunningLab(NamedTuple):
    """All that a user is told about a lab that runs."""

    plane: "ControlPlane"
    nodes: int
    gpus: int
    sample: str | None
    pods: int
    """Pods of the sample."""
    server: "StartedServer | None"
    """Tonnage's scheduler or extender, if it was asked for."""
    real: RealNode | None

    @property
    def programs(self) -> "list[Program]":
        """All that must run on."""
        return [*self.plane.running, *(self.real.node.running if self.real else ())]


def as_data(lab: RunningLab) -> dict[str, object]:
    return {
        "kubeconfig": str(lab.plane.kubeconfig()),
        "server": lab.plane.server,
        "nodes": lab.nodes,
        "pods": lab.pods,
        "tonnage": lab.server.address if lab.server else None,
        "kubelet": {"node": lab.real.node.name, "pod": str(lab.real.pod)} if lab.real else None,
        "logs": {program.name: str(program.log) for program in lab.programs},
    }


def as_text(lab: RunningLab) -> str:
    plane = lab.plane
    width = max(len(program.name) for program in lab.programs)
    return "\n".join(
        [
            f"A practice cluster with {lab.nodes} nodes x {lab.gpus} GPUs runs at {plane.server}",
            *_about_sample(lab),
            *_about_real_node(lab),
            "",
            *(f"  {line}" for line in _next_steps(lab)),
            "",
            "Logs:",
            *(f"  {program.name:{width}}  {program.log}" for program in lab.programs),
            "",
            "Ctrl-C ends the cluster and removes everything.\n",
        ]
    )


def _about_sample(lab: RunningLab) -> list[str]:
    from tonnage.lab.samples import SAMPLES

    if not lab.sample:
        return []
    told = [f"Sample {lab.sample}: {SAMPLES[lab.sample].shows}; {lab.pods} pods"]
    return told if lab.server else [*told, "Its pods wait until you start `tonnage scheduler` as below."]


def _about_real_node(lab: RunningLab) -> list[str]:
    if lab.real is None:
        return []
    return [
        f"Node {lab.real.node.name} has a real kubelet, which executes pods, and an agent with {lab.gpus} invented GPUs"
    ]


def _next_steps(lab: RunningLab) -> list[str]:
    """Commands to try, which work as typed."""
    from tonnage.lab.agents import POD
    from tonnage.lab.samples import SAMPLES

    steps, tonnage = [f"export KUBECONFIG={lab.plane.kubeconfig()}"], _this_command()
    sample = SAMPLES[lab.sample] if lab.sample else None
    config = f" --config {sample.config}" if sample and sample.config else ""
    kinds = ["nodes", "pods", *(_VOLCANO if sample and sample.is_batch else ())]
    if lab.server is None:
        steps.append(f"{tonnage} scheduler --http-bind 127.0.0.1:8080{config}")
    if shutil.which("kubectl"):
        if lab.real is not None:
            printed = lab.real.node.folder / "pod-logs" / f"default_{POD}_*" / "main" / "*.log"
            steps += [
                f"kubectl apply -f {lab.real.pod}",
                f"kubectl wait --for=condition=Ready pod/{POD}",
                f"cat {printed}",
            ]
        steps += [
            "kubectl get nodes",
            "kubectl get pods -o wide --watch",
            *(f"kubectl get {kind}" for kind in kinds[2:]),
            f"kubectl get {','.join(kinds)} -A -o json | {tonnage} schedule -f -{config}",
        ]
    if lab.server is not None and shutil.which("curl"):
        steps.append(f"curl {lab.server.address}/metrics")
    is_ours = lab.server is not None and lab.server.program.name == "tonnage scheduler"
    by = f" --scheduler {lab.server.address}" if lab.server is not None and is_ours else config
    return [*steps, f"{tonnage} top{by}", f"{tonnage} debug compare"]


def _this_command() -> str:
    """How this command is typed again."""
    if shutil.which("tonnage"):
        return "tonnage"
    return sys.argv[0] if Path(sys.argv[0]).name == "tonnage" else f"{sys.executable} -m tonnage.cli.main"
