"""`tonnage lab`: a practice cluster of real Kubernetes parts with invented GPU nodes, until Ctrl-C."""

import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from tonnage.cli.output import JSON, TABLE, YAML, document, output_option

if TYPE_CHECKING:
    from tonnage.lab.control_plane import ControlPlane

_LOOK = 0.5
"""Seconds between looks at whether the programs still run."""


@click.command("lab")
@click.option("--nodes", type=click.IntRange(0, 5000), default=12, show_default=True, help="Invented GPU nodes.")
@click.option("--gpus", type=click.IntRange(1, 16), default=8, show_default=True, help="GPUs per node.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The same seed invents the same nodes."
)
@click.option("--scheduler/--no-scheduler", default=True, show_default=True, help="Run kube-scheduler too.")
@output_option(TABLE, JSON, YAML)
def command(nodes: int, gpus: int, seed: int, scheduler: bool, output: str) -> None:
    """Start a practice cluster: a real API server with invented GPU nodes.

    etcd, kube-apiserver and kube-scheduler run on this machine until Ctrl-C, and nothing is left of them afterwards.
    The nodes register their GPUs as HAMi's device plugin does, but nothing runs on them: pods get a node and stay
    Pending. The first time the programs are built, which needs Go and takes some minutes.
    """
    from random import Random

    from tonnage.lab.control_plane import ControlPlane
    from tonnage.lab.parts import PartsError, build
    from tonnage.lab.program import LabError
    from tonnage.simulator.workloads.demo import demo_nodes

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        build(lambda line: click.echo(line, err=True))
        with ControlPlane() as plane:
            plane.api.create_nodes(demo_nodes(nodes, gpus, Random(seed)))
            if scheduler:
                plane.run_scheduler()
            with suppress(KeyboardInterrupt):
                text = _as_text(plane, nodes, gpus) if output == TABLE else document(_as_data(plane, nodes), output)
                click.echo(text, nl=False)
                _until_interrupted(plane)
    except (PartsError, LabError) as error:
        raise click.ClickException(str(error)) from error


def _until_interrupted(plane: "ControlPlane") -> None:
    while True:
        time.sleep(_LOOK)
        plane.check()


def _as_data(plane: "ControlPlane", nodes: int) -> dict[str, object]:
    return {"kubeconfig": str(plane.kubeconfig()), "server": plane.server, "nodes": nodes}


def _as_text(plane: "ControlPlane", nodes: int, gpus: int) -> str:
    return "\n".join(
        [
            f"A practice cluster with {nodes} nodes x {gpus} GPUs runs at {plane.server}",
            "",
            f"  export KUBECONFIG={plane.kubeconfig()}",
            "  kubectl get nodes",
            "  kubectl get nodes,pods -A -o json | tonnage schedule -f -",
            "  tonnage debug compare",
            "",
            f"Logs are in {plane.folder}; Ctrl-C ends the cluster and removes them.\n",
        ]
    )
