"""`tonnage schedule`: one scheduling cycle on manifests."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from tonnage.cli.flags.filenames import FilenamesCommand, manifest_files, recursive
from tonnage.cli.flags.policy import decided_by, policy_option
from tonnage.cli.inputs import (
    STANDARD_INPUT,
    BadInput,
    config_file,
    device_config_file,
    device_vendors,
    find_plugins,
    plugin_files,
    standard_input,
)
from tonnage.cli.output import JSON, TABLE, WIDE, YAML, document, echo_table, output_option

if TYPE_CHECKING:
    from tonnage.framework.plugin import Plugin
    from tonnage.manifests.read import Manifests


def _gpu_policy(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    from tonnage.plugins.gpus.gpupolicy import POLICIES, is_policy

    if not is_policy(value):
        raise click.BadParameter(
            f"{value!r} is not one of {', '.join(POLICIES)}, or several of them with commas between"
        )
    return value


def _moment(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float:
    from tonnage.model.timestamp import TimestampError, timestamp

    try:
        return time.time() if value is None else timestamp(value)
    except TimestampError as error:
        raise click.BadParameter(str(error)) from error


_EXAMPLES = """\b
Examples:
  tonnage schedule -f cluster.yaml
  kubectl get nodes,pods -A -o json | tonnage schedule -f - -o wide
"""


@click.command("schedule", cls=FilenamesCommand, epilog=_EXAMPLES)
@manifest_files
@recursive
@config_file
@policy_option
@plugin_files
@device_config_file
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
@click.option(
    "--now",
    callback=_moment,
    metavar="TIME",
    help="The time that rules about time go by, such as 2026-01-31T12:00:00Z.  [default: the clock of this machine]",
)
@output_option(TABLE, WIDE, JSON, YAML)
@click.option("--fail-on-unschedulable", is_flag=True, help="Exit with status 1 if a pod cannot be placed.")
def command(
    files: tuple[str, ...],
    recursive: bool,
    config: str | None,
    policy: str | None,
    plugins: tuple[str, ...],
    device_config_file: str | None,
    now: float,
    output: str,
    fail_on_unschedulable: bool,
    **_policies: str,
) -> None:
    """Say where the waiting pods of a cluster would go, on which GPUs, and why not elsewhere.

    The cluster is given as manifests. Pods that run count as usage, with the devices that their annotations name; pods
    without a node are placed by priority, then age, then name; those of a group together or not at all. Of Deployments,
    StatefulSets, Jobs and their like, the pods that are missing are placed too. Nothing is written anywhere.
    """
    from tonnage.actions.catalog import make_actions
    from tonnage.cli.tables import cycle_table
    from tonnage.cluster.cluster import Cluster
    from tonnage.framework.cycle import document as cycle_document
    from tonnage.framework.cycle import run_cycle
    from tonnage.framework.session import Session, SessionError
    from tonnage.manifests.owners.expansion import add_missing_pods
    from tonnage.manifests.read import ManifestError, read_files

    wanted, actions = _settings(policy, config, files, plugins)
    try:
        manifests = read_files(files, stdin=standard_input(), recursive=recursive)
        _check_kinds(manifests)
        made = add_missing_pods(manifests, now)
    except ManifestError as error:
        raise BadInput(str(error)) from error
    _say_skipped(manifests)
    _say_made(made)
    cluster = Cluster(device_vendors(device_config_file))
    cluster.now = now
    manifests.put_into(cluster)
    try:
        opened = Session(cluster, wanted)
    except SessionError as error:
        raise BadInput(str(error)) from error
    with opened as session:
        decisions = run_cycle(session, make_actions(actions))
        result = cycle_document(session, decisions, manifests.problems)
    if output in (JSON, YAML):
        click.echo(document(result, output), nl=False)
    else:
        kin = {
            key: (task.pod.metadata.controller, task.requests, task.demands) for key, task in cluster.waiting.items()
        }
        echo_table(cycle_table(result, wide=output == WIDE, nodes=len(cluster.nodes), kin=kin))
    if fail_on_unschedulable and any(decision.node is None for decision in decisions):
        sys.exit(1)


def _settings(
    policy: str | None, config: str | None, files: tuple[str, ...], plugin_paths: tuple[str, ...]
) -> "tuple[list[Plugin], Sequence[str]]":
    """The plugins and actions that the flags come to; HAMi's flags, if they were given, count more than all others."""
    from tonnage.config.defaults import with_flags

    if config == STANDARD_INPUT and STANDARD_INPUT in files:
        raise BadInput("standard input can be read only once; give - once")
    _, plugins, actions = decided_by(policy, config, find_plugins(plugin_paths))
    context = click.get_current_context()
    flags = ("node_scheduler_policy", "gpu_scheduler_policy", "numa_order")
    default = ParameterSource.DEFAULT
    given = [context.params[flag] if context.get_parameter_source(flag) != default else None for flag in flags]
    return with_flags(plugins, *given), actions


def _check_kinds(manifests: "Manifests") -> None:
    """End the command if the input describes no cluster: it has no nodes, or nothing that is read at all."""
    from tonnage.cli.tables import printable
    from tonnage.config.notes import advice
    from tonnage.manifests.objects import READ_KINDS

    if manifests.nodes:
        return
    unknown = "; ".join(
        printable(f"{kind} is not read{advice(kind.rpartition(' ')[2], READ_KINDS)}")
        for kind in sorted(manifests.skipped)
    )
    problems = "".join(f"\n  {printable(str(problem))}" for problem in manifests.problems)
    if unknown and manifests.is_empty:
        raise BadInput(f"there are no objects that Tonnage reads: {unknown}{problems}")
    hint = "give them too, such as with kubectl get nodes -o yaml"
    raise BadInput(f"there are no nodes; {hint}{f' ({unknown})' if unknown else ''}{problems}")


def _say_made(made: dict[str, int]) -> None:
    if made:
        kinds = ", ".join(f"{count} of {kind}s" for kind, count in made.items())
        click.echo(f"Made the pods that controllers would make: {kinds}", err=True)


def _say_skipped(manifests: "Manifests") -> None:
    if manifests.skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(manifests.skipped.items()))
        click.echo(f"Skipped what Tonnage does not read: {kinds}", err=True)
