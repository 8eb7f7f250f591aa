"""`tonnage lab`: a practice cluster of real Kubernetes parts with invented GPU nodes, until Ctrl-C."""

import os
import shutil
import signal
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tonnage.cli.inputs import BadInput
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
_VOLCANO = ("podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh")
"""The kinds of samples that only the batch scheduler can show."""


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
@click.option("--sample", type=click.Choice(_SAMPLES), help="Create a sample workload.")
@click.option(
    "--bin-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where etcd, kube-apiserver and kube-scheduler are.  [default: they are built from source, once]",
)
@output_option(TABLE, JSON, YAML)
def command(
    nodes: int,
    gpus: int,
    seed: int,
    scheduler: bool,
    extender: bool,
    kube_scheduler: bool,
    sample: str | None,
    bin_dir: Path | None,
    output: str,
) -> None:
    """Start a practice cluster: a real API server with invented GPU nodes, on which pods seem to run.

    etcd, kube-apiserver and kube-scheduler run on this machine until Ctrl-C, and nothing is left of them afterwards.
    The nodes register their GPUs as HAMi's device plugin does. Kubelets and device plugins are played: pods become
    Running and end as they say, but nothing is executed. Without --bin-dir the programs are built the first time, which
    needs Go and takes some minutes.
    """
    from random import Random

    from tonnage.lab.api import ApiError
    from tonnage.lab.parts import PartsError
    from tonnage.lab.program import LabError
    from tonnage.simulator.workloads.demo import demo_nodes

    _check_flags(nodes, scheduler, extender, kube_scheduler, sample)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ExitStack() as running:
            with _progress() as tell:
                made = demo_nodes(nodes, gpus, Random(seed))
                lab = _start(running, tell, made, gpus, (scheduler, extender, kube_scheduler), sample, bin_dir)
            with suppress(KeyboardInterrupt):
                click.echo(_as_text(lab) if output == TABLE else document(_as_data(lab), output), nl=False)
                _until_interrupted(lab.plane)
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


def _start(
    running: ExitStack,
    tell: "Callable[[str], None]",
    nodes: "list[Node]",
    gpus: int,
    schedulers: tuple[bool, bool, bool],
    sample: str | None,
    bin_dir: Path | None,
) -> RunningLab:
    """Start everything that was asked for; `running` ends it."""
    from tonnage.lab import definitions
    from tonnage.lab.control_plane import ControlPlane
    from tonnage.lab.heartbeats import Heartbeats, ready
    from tonnage.lab.parts import build
    from tonnage.lab.player import playing
    from tonnage.lab.samples import SAMPLES, create_sample
    from tonnage.lab.schedulers import BATCH_SCHEDULER, start_extender, start_scheduler
    from tonnage.model.pod import DEFAULT_SCHEDULER

    scheduler, extender, kube_scheduler = schedulers
    programs = build(tell) if bin_dir is None else _checked(bin_dir, kube_scheduler)
    chosen: SampleWorkload | None = SAMPLES[sample] if sample else None
    plane = running.enter_context(ControlPlane(programs=programs, tell=tell))
    tell("installing the definitions of PodGroups, Queues and topologies")
    definitions.install(plane.api)
    tell(f"creating {len(nodes)} nodes")
    plane.api.create_nodes(nodes, [ready()])
    running.callback(Heartbeats(plane).stop)
    running.enter_context(playing(plane, longest_grace=_GRACE))
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
    return RunningLab(plane, len(nodes), gpus, sample, pods, server)


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


def _until_interrupted(plane: "ControlPlane") -> None:
    while True:
        time.sleep(_LOOK)
        plane.check()


# -- what is told


def _as_data(lab: RunningLab) -> dict[str, object]:
    return {
        "kubeconfig": str(lab.plane.kubeconfig()),
        "server": lab.plane.server,
        "nodes": lab.nodes,
        "pods": lab.pods,
        "tonnage": lab.server.address if lab.server else None,
        "logs": {program.name: str(program.log) for program in lab.plane.running},
    }


def _as_text(lab: RunningLab) -> str:
    plane = lab.plane
    width = max(len(program.name) for program in plane.running)
    return "\n".join(
        [
            f"A practice cluster with {lab.nodes} nodes x {lab.gpus} GPUs runs at {plane.server}",
            *_about_sample(lab),
            "",
            *(f"  {line}" for line in _next_steps(lab)),
            "",
            "Logs:",
            *(f"  {program.name:{width}}  {program.log}" for program in plane.running),
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


def _next_steps(lab: RunningLab) -> list[str]:
    """Commands to try, which work as typed."""
    from tonnage.lab.samples import SAMPLES

    steps, tonnage = [f"export KUBECONFIG={lab.plane.kubeconfig()}"], _this_command()
    sample = SAMPLES[lab.sample] if lab.sample else None
    config = f" --config {sample.config}" if sample and sample.config else ""
    kinds = ["nodes", "pods", *(_VOLCANO if sample and sample.is_batch else ())]
    if lab.server is None:
        steps.append(f"{tonnage} scheduler --http-bind 127.0.0.1:8080{config}")
    if shutil.which("kubectl"):
        steps += [
            "kubectl get nodes",
            "kubectl get pods -o wide --watch",
            *(f"kubectl get {kind}" for kind in kinds[2:]),
            f"kubectl get {','.join(kinds)} -A -o json | {tonnage} schedule -f -{config}",
        ]
    if lab.server is not None and shutil.which("curl"):
        steps.append(f"curl {lab.server.address}/metrics")
    return [*steps, f"{tonnage} debug compare"]


def _this_command() -> str:
    """How this command is typed again."""
    if shutil.which("tonnage"):
        return "tonnage"
    return sys.argv[0] if Path(sys.argv[0]).name == "tonnage" else f"{sys.executable} -m tonnage.cli.main"
