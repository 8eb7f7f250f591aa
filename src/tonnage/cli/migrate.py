"""`tonnage migrate`: what moving a cluster over from HAMi, Volcano or KAI changes, and HAMi's chart values as ours."""

import asyncio
from typing import TYPE_CHECKING

import click

from tonnage.cli.flags.filenames import FilenamesCommand, recursive
from tonnage.cli.group import SuggestingGroup
from tonnage.cli.inputs import STANDARD_INPUT, BadInput, standard_input
from tonnage.cli.output import JSON, TABLE, YAML, document, output_option

if TYPE_CHECKING:
    from tonnage.migrate.peer import PeerScheduler
    from tonnage.migrate.report import MigrationReport

_PEERS = ("hami", "volcano", "kai")
_LAST = 200


@click.group("migrate", cls=SuggestingGroup)
def command() -> None:
    """Move a cluster over from HAMi, Volcano or KAI."""


@command.command("check", cls=FilenamesCommand)
@click.option("--from", "peer", type=click.Choice(_PEERS), required=True, help="The scheduler that runs now.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE...",
    help="Manifests of the cluster instead of a live one: nodes, pods, groups and queues, and the scheduler's "
    "Deployment and ConfigMaps; files, folders, - for standard input. May be repeated.",
)
@recursive
@click.option("--kubeconfig", metavar="FILE", help="The cluster's kubeconfig file.  [default: as kubectl finds it]")
@click.option("--context", metavar="NAME", help="The context in that file.  [default: its current one]")
@click.option(
    "--last", type=click.IntRange(0, 5000), default=_LAST, show_default=True, help="How many placed pods to replay."
)
@output_option(TABLE, JSON, YAML)
def check(
    peer: str,
    files: tuple[str, ...],
    recursive: bool,
    kubeconfig: str | None,
    context: str | None,
    last: int,
    output: str,
) -> None:
    """Say what will be the same, what will differ and what is not supported, and how to move there and back.

    Reads the running scheduler's flags, configuration and device configuration, the definitions, nodes and pods;
    decides the last placed pods again, each on the cluster without it and later ones. Nothing is written.
    """
    from tonnage.migrate.catalog import PEERS
    from tonnage.migrate.report import as_text

    if files and (kubeconfig or context):
        raise click.UsageError("give either -f or --kubeconfig and --context: files, or a live cluster")
    chosen = PEERS[peer]
    report = _from_files(chosen, files, recursive, last) if files else _live(chosen, kubeconfig, context, last)
    if output == TABLE:
        click.echo(as_text(report), nl=False)
    else:
        click.echo(document(report, output), nl=False)


def _from_files(peer: "PeerScheduler", files: tuple[str, ...], recursive: bool, last: int) -> "MigrationReport":
    from tonnage.cluster.cluster import Cluster
    from tonnage.live.listed import ListedCluster
    from tonnage.manifests.read import ManifestError, read_files
    from tonnage.migrate.check import check
    from tonnage.migrate.peerobjects import PeerObjects, reader_into

    objects = PeerObjects()
    try:
        manifests = read_files(files, stdin=standard_input(), recursive=recursive, reader=reader_into(objects))
    except ManifestError as error:
        raise BadInput(str(error)) from error
    if not manifests.nodes:
        raise BadInput("there are no nodes; give them too, such as with kubectl get nodes -o yaml")
    installation = peer.examine(objects)
    cluster = Cluster(installation.vendors)
    manifests.put_into(cluster)
    cluster.is_ours = lambda pod: pod.scheduler in installation.schedulers
    cluster.settle()
    listed = ListedCluster(cluster, tuple(manifests.problems))
    return check(peer, installation, objects, listed, ", ".join(files), last)


def _live(peer: "PeerScheduler", kubeconfig: str | None, context: str | None, last: int) -> "MigrationReport":
    from tonnage.cli.flags.live import reading_failures

    with reading_failures():
        return asyncio.run(_listed(peer, kubeconfig, context, last))


async def _listed(peer: "PeerScheduler", kubeconfig: str | None, context: str | None, last: int) -> "MigrationReport":
    from tonnage.kube.client import connect
    from tonnage.live.listed import list_cluster
    from tonnage.migrate.check import check
    from tonnage.migrate.peerobjects import read_peer

    client = await connect(kubeconfig, context)
    try:
        objects = await read_peer(client, peer.is_peer)
        installation = peer.examine(objects)
        listed = await list_cluster(client, installation.vendors)
        return check(peer, installation, objects, listed, client.server, last)
    finally:
        await client.close()


@command.command("values")
@click.argument("file", metavar="HAMI-VALUES")
@output_option(YAML, JSON)
def values(file: str, output: str) -> None:
    """Write our chart's values from those of HAMi's chart.

    Takes a values file of HAMi's, such as `helm get values hami -o yaml` prints, or - for standard input. What means
    the same is carried over; every other key is named with the reason, as a comment and under leftOut in JSON.
    """
    from tonnage.config.notes import ConfigError
    from tonnage.config.source import text_of, text_of_file
    from tonnage.migrate.values import as_yaml, read_values, translated

    try:
        text = text_of(standard_input().read(), "standard input") if file == STANDARD_INPUT else text_of_file(file)
        found = translated(read_values(text, file))
    except ConfigError as error:
        raise BadInput(str(error)) from error
    left_out = [{"key": one.key, "reason": one.reason} for one in found.left_out]
    data = {"values": found.values, "leftOut": left_out}
    click.echo(as_yaml(found) if output == YAML else document(data, output), nl=False)
