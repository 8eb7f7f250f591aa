"""`tonnage debug`: looking into how Tonnage sees a live cluster."""

import asyncio
from typing import TYPE_CHECKING

import click

from tonnage.cli.group import SuggestingGroup
from tonnage.cli.output import JSON, TABLE, YAML, document, output_option

if TYPE_CHECKING:
    from tonnage.kube.client import Client
    from tonnage.kube.compare import Difference
    from tonnage.kube.informer import ClusterInformer

_PATIENCE = 60.0


@click.group("debug", cls=SuggestingGroup)
def command() -> None:
    """Look into how Tonnage sees a live cluster."""


@command.command("compare")
@click.option("--kubeconfig", metavar="FILE", help="The cluster's kubeconfig file.  [default: as kubectl finds it]")
@click.option("--context", metavar="NAME", help="The context in that file.  [default: its current one]")
@click.option(
    "--seconds",
    type=click.FloatRange(0, 86400),
    default=10.0,
    show_default=True,
    help="How long to follow the cluster before comparing.",
)
@output_option(TABLE, JSON, YAML)
def compare(kubeconfig: str | None, context: str | None, seconds: float, output: str) -> None:
    """Compare the cluster state that Tonnage keeps with a fresh list.

    Nodes, pods and all else that decides where pods go are listed and watched for some time; then everything is
    listed anew, and whatever the two have otherwise is printed. Nothing is written to the cluster.

    The exit status is 1 if there are differences.
    """
    from tonnage.cli.inputs import BadInput
    from tonnage.kube.errors import AccessError, KubeError

    try:
        text, differs = asyncio.run(_compare(kubeconfig, context, seconds, output))
    except AccessError as error:
        raise BadInput(str(error)) from error
    except KubeError as error:
        raise click.ClickException(str(error)) from error
    click.echo(text, nl=False)
    if differs:
        raise click.exceptions.Exit(1)


async def _compare(kubeconfig: str | None, context: str | None, seconds: float, output: str) -> tuple[str, bool]:
    from random import random

    from tonnage.devices.catalog import default_vendors
    from tonnage.kube.client import connect
    from tonnage.kube.compare import fresh_cluster, lasting_differences
    from tonnage.kube.informer import ClusterInformer
    from tonnage.kube.kinds import BATCH_KINDS
    from tonnage.kube.watch import Backoff

    client = await connect(kubeconfig, context)
    try:
        # What keeps a list from working is told at once instead of being tried again and again.
        cluster = await fresh_cluster(client, default_vendors(), BATCH_KINDS)
        informer = ClusterInformer(client, cluster, Backoff(random), BATCH_KINDS)
        following = asyncio.create_task(informer.run())
        try:
            await _synced(informer)
            await asyncio.sleep(seconds)
            differences = await lasting_differences(client, informer.cluster, kinds=BATCH_KINDS)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    finally:
        await client.close()
    if output == TABLE:
        return _as_text(client, informer, differences), bool(differences)
    return document(_as_data(client, informer, differences), output), bool(differences)


async def _synced(informer: "ClusterInformer") -> None:
    from tonnage.kube.errors import KubeError
    from tonnage.model.duration import format_seconds

    try:
        async with asyncio.timeout(_PATIENCE):
            await informer.synced.wait()
    except TimeoutError as error:
        trouble = "; ".join(f"{kind}: {text}" for kind, text in informer.trouble.items())
        raise KubeError(f"the cluster could not be listed within {format_seconds(_PATIENCE)}; {trouble}") from error


def _as_data(client: "Client", informer: "ClusterInformer", differences: list["Difference"]) -> dict[str, object]:
    return {
        "server": client.server,
        "nodes": len(informer.cluster.nodes),
        "pods": len(informer.cluster.pods()),
        "changes": informer.applied,
        "differences": differences,
        "problems": list(informer.problems.values()),
        "trouble": informer.trouble,
    }


def _as_text(client: "Client", informer: "ClusterInformer", differences: list["Difference"]) -> str:
    cluster = informer.cluster
    found = f"{len(differences)} differences" if differences else "no difference"
    return "\n".join(
        [
            *(str(difference) for difference in differences),
            *(f"cannot be read: {problem}" for problem in informer.problems.values()),
            *(f"cannot be followed: {kind}: {text}" for kind, text in informer.trouble.items()),
            f"{client.server}: {len(cluster.nodes)} nodes, {len(cluster.pods())} pods, "
            f"{informer.applied} changes taken over: {found}\n",
        ]
    )
