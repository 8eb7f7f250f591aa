"""`tonnage schedule`: one scheduling cycle on manifests."""

import io
import sys
from typing import TYPE_CHECKING, BinaryIO

import click

if TYPE_CHECKING:
    from tonnage.manifests.read import Manifests


def _gpu_policy(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    from tonnage.plugins.gpupolicy import POLICIES, is_policy

    if not is_policy(value):
        raise click.BadParameter(
            f"{value!r} is not one of {', '.join(POLICIES)}, or several of them with commas between"
        )
    return value


class BadInput(click.ClickException):
    """Input that cannot be read; ends the command with status 2."""

    exit_code = 2


_EXAMPLES = """\b
Examples:
  tonnage schedule -f cluster.yaml
  kubectl get nodes,pods -A -o json | tonnage schedule -f - -o wide
"""


@click.command("schedule", epilog=_EXAMPLES)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Manifests as kubectl prints them, YAML or JSON; - for standard input. May be repeated.",
)
@click.option(
    "--node-scheduler-policy",
    type=click.Choice(["binpack", "spread"]),
    default="binpack",
    show_default=True,
    help="How nodes are chosen; a pod's annotation hami.io/node-scheduler-policy overrules it.",
)
@click.option(
    "--gpu-scheduler-policy",
    callback=_gpu_policy,
    default="spread",
    show_default=True,
    metavar="POLICY",
    help="How a node's cards are chosen: binpack, spread, mutex, numa, topology-aware, or several with commas between; "
    "a pod's annotation hami.io/gpu-scheduler-policy overrules it.",
)
@click.option(
    "--numa-order",
    type=click.Choice(["tie", "first"]),
    default="tie",
    show_default=True,
    help="Whether a card's NUMA node breaks ties or comes before the policy, as in HAMi 2.4.",
)
@click.option("-o", "--output", type=click.Choice(["table", "wide", "json"]), default="table", show_default=True)
@click.option("--fail-on-unschedulable", is_flag=True, help="Exit with status 1 if a pod cannot be placed.")
def command(
    files: tuple[str, ...],
    node_scheduler_policy: str,
    gpu_scheduler_policy: str,
    numa_order: str,
    output: str,
    fail_on_unschedulable: bool,
) -> None:
    """Say where the waiting pods of a cluster would go, on which GPUs, and why not elsewhere.

    The cluster is given as manifests. Pods that run count as usage, with the devices that their annotations name; pods
    without a node are placed by priority, then age, then name. Nothing is written anywhere.
    """
    from tonnage.cli.tables import cycle_table
    from tonnage.cluster.cluster import Cluster
    from tonnage.devices.catalog import default_vendors
    from tonnage.framework.session import Session
    from tonnage.manifests.read import ManifestError, read_files
    from tonnage.model.wire import encode_pretty
    from tonnage.plugins.stock import stock_plugins
    from tonnage.scheduler.cycle import document, run_cycle

    try:
        manifests = read_files(files, stdin=_standard_input())
    except ManifestError as error:
        raise BadInput(str(error)) from error
    _say_skipped(manifests)
    cluster = Cluster(default_vendors())
    for node in manifests.nodes:
        cluster.upsert_node(node)
    for pod in manifests.pods:
        cluster.upsert_pod(pod)
    with Session(cluster, stock_plugins(node_scheduler_policy, gpu_scheduler_policy, numa_order)) as session:
        decisions = run_cycle(session)
        result = document(session, decisions, manifests.problems)
    if output == "json":
        click.echo(encode_pretty(result))
    else:
        click.echo(cycle_table(result, wide=output == "wide", nodes=len(cluster.nodes)), nl=False)
    if fail_on_unschedulable and any(decision.node is None for decision in decisions):
        sys.exit(1)


def _standard_input() -> BinaryIO:
    """Standard input; an empty one if the caller closed it."""
    return io.BytesIO() if sys.stdin is None else sys.stdin.buffer


def _say_skipped(manifests: "Manifests") -> None:
    if manifests.skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(manifests.skipped.items()))
        click.echo(f"Skipped what Tonnage does not read: {kinds}", err=True)
