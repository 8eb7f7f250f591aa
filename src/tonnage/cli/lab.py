"""`tonnage lab`: a practice cluster of real Kubernetes parts with invented GPU nodes, until Ctrl-C."""

import os
import signal
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.inputs import BadInput
from tonnage.cli.labtext import RealNode, RunningLab, as_data, as_text
from tonnage.cli.output import JSON, TABLE, YAML, document, output_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tonnage.lab.control_plane import ControlPlane
    from tonnage.lab.samples import SampleWorkload
    from tonnage.lab.schedulers import StartedServer
    from tonnage.model.node import Node

_LOOK = 0.5
"""Seconds between looks at whether the programs still run."""
_GRACE = 1.0
"""Seconds that a deleted pod takes at most to go."""
_SAMPLES = ("gangs", "sharing", "queues")
_VERSIONS = ("1.34", "1.37")
"""Those that the parts are pinned to; the module that pins them is not imported for `--help`."""


@click.command("lab")
@click.option("--nodes", type=click.IntRange(0, 5000), default=12, show_default=True, help="Invented GPU nodes.")
@click.option("--gpus", type=click.IntRange(1, 16), default=8, show_default=True, help="GPUs per node.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The same seed invents the same nodes."
)
@click.option("--scheduler", is_flag=True, help="Start `tonnage scheduler` too.")
@click.option("--extender", is_flag=True, help="Start `tonnage extender` too; kube-scheduler asks it.")
@click.option(
    "--kube-scheduler/--no-kube-scheduler", default=True, show_default=True, help="Run kube-scheduler for other pods."
)
@click.option(
    "--kubelet", is_flag=True, help="Add a real node: kubelet, containerd and `tonnage agent` with invented cards."
)
@click.option("--sample", type=click.Choice(_SAMPLES), help="Create a sample workload.")
@click.option(
    "--bin-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where etcd, kube-apiserver and kube-scheduler are.  [default: they are built from source, once]",
)
@click.option(
    "--kubernetes-version",
    type=click.Choice(_VERSIONS),
    help="The version of Kubernetes that is built and run.  [default: 1.34]",
)
@output_option(TABLE, JSON, YAML)
def command(
    nodes: int,
    gpus: int,
    seed: int,
    scheduler: bool,
    extender: bool,
    kube_scheduler: bool,
    kubelet: bool,
    sample: str | None,
    bin_dir: Path | None,
    kubernetes_version: str | None,
    output: str,
) -> None:
    """Start a practice cluster: a real API server with invented GPU nodes, on which pods seem to run.

    etcd, kube-apiserver and kube-scheduler run on this machine until Ctrl-C, and nothing is left of them afterwards.
    The nodes register their GPUs as HAMi's device plugin does. Kubelets and device plugins are played: pods become
    Running and end as they say, but nothing is executed. With --kubelet there is one more node, whose pods are
    executed; it needs root, containerd and runc. Without --bin-dir the programs are built the first time, which
    needs Go and takes some minutes.
    """
    from random import Random

    from tonnage.lab.api import ApiError
    from tonnage.lab.parts import PartsError, build, node
    from tonnage.lab.program import LabError
    from tonnage.simulator.workloads.demo import demo_nodes

    _check_flags(nodes, scheduler, extender, kube_scheduler, sample)
    if bin_dir and kubernetes_version:
        raise click.UsageError(
            "--bin-dir or --kubernetes-version, not both: the programs in that folder have a version"
        )
    if kubelet:
        _check_machine(sample)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ExitStack() as running:
            with _progress() as tell:
                made = demo_nodes(nodes, gpus, Random(seed))
                programs = _programs(tell, bin_dir, kubernetes_version, kube_scheduler)
                real = build(tell, node(kubernetes_version)) if kubelet else None
                lab = _start(running, tell, made, gpus, (scheduler, extender, kube_scheduler), sample, programs, real)
            with suppress(KeyboardInterrupt):
                click.echo(as_text(lab) if output == TABLE else document(as_data(lab), output), nl=False)
                _until_interrupted(lab)
    except (PartsError, LabError, ApiError) as error:
        raise click.ClickException(str(error)) from error


def _check_flags(nodes: int, scheduler: bool, extender: bool, kube_scheduler: bool, sample: str | None) -> None:
    from tonnage.lab.samples import SAMPLES

    if scheduler and extender:
        raise click.UsageError("--scheduler or --extender, not both: each would give away what the other has given")
    if extender and not kube_scheduler:
        raise click.UsageError("--extender needs kube-scheduler, which asks it; leave out --no-kube-scheduler")
    if sample and not nodes:
        raise click.UsageError("--sample needs nodes for its pods; give --nodes 1 or more")
    if sample and extender and SAMPLES[sample].is_batch:
        raise click.UsageError(f"--sample {sample} needs --scheduler: kube-scheduler places pods one by one")


def _check_machine(sample: str | None) -> None:
    from tonnage.lab.kubelet_node import missing_here

    if sample:
        raise click.UsageError("--sample or --kubelet, not both: the images of samples' pods do not exist")
    lacking = missing_here()
    if lacking:
        raise click.ClickException(f"--kubelet: {lacking}")


def _start(
    running: ExitStack,
    tell: "Callable[[str], None]",
    nodes: "list[Node]",
    gpus: int,
    schedulers: tuple[bool, bool, bool],
    sample: str | None,
    programs: Path,
    node_programs: Path | None,
) -> RunningLab:
    """Start everything that was asked for, a real node if there are programs for it; `running` ends it."""
    from tonnage.lab import definitions
    from tonnage.lab.control_plane import ControlPlane
    from tonnage.lab.heartbeats import Heartbeats, ready
    from tonnage.lab.kubelet_node import NAME
    from tonnage.lab.player import playing
    from tonnage.lab.samples import SAMPLES, create_sample
    from tonnage.lab.schedulers import BATCH_SCHEDULER, start_extender, start_scheduler
    from tonnage.model.pod import DEFAULT_SCHEDULER

    scheduler, extender, kube_scheduler = schedulers
    chosen: SampleWorkload | None = SAMPLES[sample] if sample else None
    plane = running.enter_context(ControlPlane(programs=programs, tell=tell))
    tell("installing the definitions of PodGroups, Queues and topologies")
    definitions.install(plane.api)
    tell(f"creating {len(nodes)} nodes")
    plane.api.create_nodes(nodes, [ready()])
    running.callback(Heartbeats(plane).stop)
    running.enter_context(playing(plane, longest_grace=_GRACE, real_nodes=[NAME] if node_programs else []))
    real: RealNode | None = None
    if node_programs:
        own = BATCH_SCHEDULER if scheduler else DEFAULT_SCHEDULER
        real = _real_node(running, tell, plane, node_programs, gpus, own)
    pods = 0
    if chosen is not None:
        # All pods are there before a scheduler looks, so that it divides the cluster among all of them.
        tell(f"creating the sample {sample}")
        usable = sum(not node.spec.taints for node in nodes)
        pods = create_sample(plane.api, chosen, usable, gpus, DEFAULT_SCHEDULER if extender else BATCH_SCHEDULER)
    server: StartedServer | None = None
    if extender:
        server = start_extender(plane)
    elif kube_scheduler:
        plane.run_scheduler()
    if scheduler:
        server = start_scheduler(plane, chosen.config if chosen else None)
    return RunningLab(plane, len(nodes), gpus, sample, pods, server, real)


def _real_node(
    running: ExitStack,
    tell: "Callable[[str], None]",
    plane: "ControlPlane",
    programs: Path,
    gpus: int,
    scheduler: str,
) -> RealNode:
    """A kubelet with an agent, and a pod for it."""
    from tonnage.lab.agents import start_agent, write_pod
    from tonnage.lab.kubelet_node import KubeletNode

    node = running.enter_context(KubeletNode(plane, programs=programs, tell=tell))
    start_agent(plane, node, gpus)
    return RealNode(node, write_pod(plane.folder, node, scheduler))


def _programs(
    tell: "Callable[[str], None]", bin_dir: Path | None, kubernetes_version: str | None, kube_scheduler: bool
) -> Path:
    """The folder of the control plane's programs; builds them first if need be."""
    from tonnage.lab.parts import build, control_plane

    return build(tell, control_plane(kubernetes_version)) if bin_dir is None else _checked(bin_dir, kube_scheduler)


def _checked(bin_dir: Path, kube_scheduler: bool) -> Path:
    """The folder, if it has all programs."""
    from tonnage.lab.parts import KUBE_SCHEDULER, PROGRAMS

    needed = [name for name in PROGRAMS if kube_scheduler or name != KUBE_SCHEDULER]
    if not bin_dir.is_dir():
        raise BadInput(f"--bin-dir {bin_dir}: there is no such folder; give one that has {', '.join(needed)}")
    missing = [name for name in needed if not os.access(bin_dir / name, os.X_OK)]
    if missing:
        raise BadInput(f"--bin-dir {bin_dir} has no {', '.join(missing)}; give a folder that has {', '.join(needed)}")
    return bin_dir.resolve()


@contextmanager
def _progress() -> "Iterator[Callable[[str], None]]":
    """Tell what is being done: one changing line on a terminal, else a line each."""
    if not sys.stderr.isatty():
        yield lambda line: click.echo(line, err=True)
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        step = shown.add_task("starting")
        yield lambda line: shown.update(step, description=line)


def _until_interrupted(lab: RunningLab) -> None:
    while True:
        time.sleep(_LOOK)
        for program in lab.programs:
            program.check()
