"""The flags of `tonnage explain`, and the answer that they ask for."""

from typing import TYPE_CHECKING

import click

from tonnage.cli.explain.words import complete_words, question
from tonnage.cli.flags.filenames import FilenamesCommand
from tonnage.cli.flags.live import ViewSource, live_options
from tonnage.cli.inputs import BadInput
from tonnage.cli.output import JSON, TABLE, YAML, document, echo_table, output_option

if TYPE_CHECKING:
    from tonnage.explain.record import ExplainedKind, Explanation
    from tonnage.live.view import ClusterView

_EXAMPLES = """\b
Examples:
  tonnage explain train-0 -n team-a
  tonnage explain queue team-a -o yaml
  tonnage explain gpu GPU-1b2c -f cluster.yaml
  curl -s localhost:8080/debug/snapshot | tonnage explain train-0 -n team-a -f -
"""


@click.command("explain", cls=FilenamesCommand, epilog=_EXAMPLES)
@click.argument("words", nargs=-1, metavar="[KIND] NAME", shell_complete=complete_words)
@click.option(
    "-n", "--namespace", metavar="NAME", help="The namespace of the pod or job.  [default: that of the context]"
)
@live_options
@click.option(
    "--server",
    metavar="URL",
    help="Ask a running `tonnage scheduler` or `tonnage extender` instead, such as http://127.0.0.1:8080.",
)
@output_option(TABLE, JSON, YAML)
@click.option("-w", "--watch", is_flag=True, help="Follow the cluster, and answer again whenever the answer changes.")
def command(
    words: tuple[str, ...], namespace: str | None, source: ViewSource, server: str | None, output: str, watch: bool
) -> None:
    """Say why a pod waits, what it waits for, who holds that, and what would let it run.

    KIND is pod, job, queue, node or gpu; without one it is a pod. A card may also be named NODE/INDEX. What would help
    is tried on the state of the cluster before it is said: with the change, a scheduling cycle places the pod. Nothing
    is written anywhere.
    """
    kind, name = question(words)
    if watch and (server is not None or not source.is_live):
        raise click.UsageError("--watch follows a live cluster; leave out -f and --server")
    if server is not None and not source.is_live:
        raise click.UsageError("give either -f or --server: files, or a running server")
    where = namespace or _namespace(source)
    if server is not None:
        from tonnage.cli.explain.server import ask

        _echo(ask(server, kind, name, where), output)
    elif watch:
        from tonnage.cli.explain.watch import watched

        watched(source, lambda view: explained(view, kind, name, where), lambda found: _echo(found, output))
    else:
        _echo(explained(source.read(), kind, name, where), output)


def explained(view: "ClusterView", kind: "ExplainedKind", name: str, namespace: str) -> "Explanation":
    """The answer by a cluster and what decides there; ends the command if there is no such thing."""
    from msgspec.structs import replace

    from tonnage.explain.names import UnknownNameError
    from tonnage.framework.session import SessionError
    from tonnage.plan.defrag.moves import make_explainer

    view.cluster.now = view.now()
    try:
        found = make_explainer(view.cluster, view.plugins, view.actions).explain(kind, name, namespace)
    except (UnknownNameError, SessionError) as error:
        raise BadInput(str(error)) from error
    missing = [str(one) for one in view.live.problems() if one.message.endswith("it is left out")]
    notes = [*found.notes, *([view.note] if view.note else []), *missing]
    return replace(found, notes=notes)


def _namespace(source: ViewSource) -> str:
    """The namespace that is meant if none is given."""
    from tonnage.kube.access import Access
    from tonnage.kube.errors import AccessError
    from tonnage.kube.kubeconfig import DEFAULT_NAMESPACE

    if not source.is_live:
        return DEFAULT_NAMESPACE
    try:
        return Access(source.kubeconfig, source.context).namespace()
    except AccessError:
        # Whoever connects tells what is wrong.
        return DEFAULT_NAMESPACE


def _echo(found: "Explanation", output: str) -> None:
    if output in (JSON, YAML):
        click.echo(document(found, output), nl=False)
        return
    from tonnage.cli.explain.text import explanation_text

    echo_table(explanation_text(found))
