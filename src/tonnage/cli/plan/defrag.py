"""`tonnage plan defrag`: its flags, and the plan that they ask for."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tonnage.cli.flags.filenames import FilenamesCommand
from tonnage.cli.flags.live import ViewSource, live_options
from tonnage.cli.inputs import BadInput
from tonnage.cli.output import JSON, TABLE, YAML, document, echo_table, output_option

if TYPE_CHECKING:
    from tonnage.live.view import ClusterView
    from tonnage.plan.defrag.goals import Goal
    from tonnage.plan.defrag.planner import PlanRequest
    from tonnage.plan.defrag.prices import Prices
    from tonnage.plan.defrag.record import DefragPlan

F = TypeVar("F", bound=Callable[..., object])

_ALL = "all"
_EXAMPLES = """\b
Examples:
  tonnage plan defrag --free-gpus 8 --max-gpu-hours 40
  tonnage plan defrag --free-nodes --not-before 2026-01-31T22:00:00Z -o json
  tonnage plan defrag --start team-a/train --kubectl
  tonnage plan defrag -f cluster.yaml --usable --html plan.html
"""


def _optional(flag: str, what: str) -> Callable[[F], F]:
    return click.option(
        flag,
        is_flag=False,
        flag_value=_ALL,
        metavar="[NUMBER]",
        help=f"Free {what}: so many more than now, or as many as pay if no number is given.",
    )


@click.command("defrag", cls=FilenamesCommand, epilog=_EXAMPLES)
@_optional("--free-gpus", "whole GPUs")
@_optional("--free-nodes", "whole nodes, which an autoscaler can then give back")
@click.option("--usable", is_flag=True, help="Make more of the free GPUs usable for the pods that typically arrive.")
@click.option("--start", "jobs", multiple=True, metavar="NAMESPACE/JOB", help="Start a waiting job. May be repeated.")
@click.option("--start-all", is_flag=True, help="Start as many of the waiting jobs as pay.")
@click.option("--max-pods", type=click.IntRange(0), metavar="NUMBER", help="Move at most so many pods.")
@click.option(
    "--max-gpu-hours", type=click.FloatRange(0), metavar="NUMBER", help="Lose at most so many GPU-hours of work."
)
@click.option("--max-pods-per-namespace", type=click.IntRange(0), metavar="NUMBER", help="The same for each namespace.")
@click.option("--max-gpu-hours-per-namespace", type=click.FloatRange(0), metavar="NUMBER", help="The same.")
@click.option("--max-pods-per-queue", type=click.IntRange(0), metavar="NUMBER", help="The same for each queue.")
@click.option("--max-gpu-hours-per-queue", type=click.FloatRange(0), metavar="NUMBER", help="The same.")
@click.option(
    "--not-before",
    metavar="TIME",
    help="The earliest time to carry the plan out, such as 2026-01-31T22:00:00Z; prices are those of that time.",
)
@click.option(
    "--min-runtime",
    metavar="DURATION",
    default="0s",
    show_default=True,
    help="Leave pods alone that have run for a shorter time; minimum runtimes of queues count as well.",
)
@click.option("--include-non-preemptible", is_flag=True, help="Also move pods that are not preemptible.")
@click.option("--prices", "price_file", metavar="FILE", help="Prices and rates, and the horizon.  [default: GPU-hours]")
@click.option("--horizon", metavar="DURATION", help="For how long what is gained counts.  [default: 24h]")
@click.option(
    "--time-limit",
    type=click.FloatRange(0.1, 86400),
    default=45.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to search; then the best plan so far is the answer.",
)
@live_options
@output_option(TABLE, JSON, YAML)
@click.option("--kubectl", is_flag=True, help="Print the commands that carry the plan out by hand, one move at a time.")
@click.option("--html", metavar="FILE", help="Also write the plan as a page.")
def defrag(
    free_gpus: str | None,
    free_nodes: str | None,
    usable: bool,
    jobs: tuple[str, ...],
    start_all: bool,
    not_before: str | None,
    price_file: str | None,
    horizon: str | None,
    time_limit: float,
    source: ViewSource,
    output: str,
    kubectl: bool,
    html: str | None,
    **given: Any,
) -> None:
    """Say which pods to move, in which order, to free GPUs or nodes or to start jobs, at what price and for what gain.

    A pod is moved by evicting it; its controller makes it again. The price is the work that it loses, the value what is
    gained over a horizon, and the plan has the largest difference that was found; a bound says how far from the best it
    may be. Every step is tried on the state of the cluster by all plugins. Nothing is written to the cluster.
    """
    goal = _goal(free_gpus, free_nodes, usable, jobs, start_all)
    if kubectl and output != TABLE:
        raise click.UsageError("give either --kubectl or -o: commands, or a document")
    prices = _prices(price_file, horizon)
    view = source.read()
    plan = _made(view, goal, prices, not_before, time_limit, given)
    if html is not None:
        _write_page(plan, view, html)
    if kubectl:
        from tonnage.cli.plan.commands import kubectl_commands

        click.echo(kubectl_commands(plan), nl=False)
    elif output == TABLE:
        from tonnage.cli.plan.text import plan_text

        echo_table(plan_text(plan, view.note))
    else:
        click.echo(document(plan, output), nl=False)


def _goal(
    free_gpus: str | None, free_nodes: str | None, usable: bool, jobs: tuple[str, ...], start_all: bool
) -> "Goal":
    from tonnage.plan.defrag.goals import Goal, GoalKind

    goals = [
        *([Goal(GoalKind.FREE_GPUS, _number("--free-gpus", free_gpus))] if free_gpus is not None else []),
        *([Goal(GoalKind.FREE_NODES, _number("--free-nodes", free_nodes))] if free_nodes is not None else []),
        *([Goal(GoalKind.USABLE)] if usable else []),
        *([Goal(GoalKind.START, jobs=tuple(map(_job, jobs)))] if jobs or start_all else []),
    ]
    if not goals:
        raise click.UsageError("give a goal: --free-gpus, --free-nodes, --usable, --start or --start-all")
    if len(goals) > 1 or (jobs and start_all):
        named = ", ".join(goal.kind for goal in goals)
        told = "--start and --start-all" if len(goals) == 1 else named
        raise click.UsageError(
            f"the goals contradict each other ({told}): what one frees the other may fill; plan one after another"
        )
    return goals[0]


def _number(flag: str, text: str) -> float | None:
    if text == _ALL:
        return None
    if not (text.isascii() and text.isdigit() and int(text[:9]) > 0 and len(text) < 9):
        raise click.BadParameter(f"{text!r} is no whole number from 1 up", param_hint=flag)
    return float(text)


def _job(name: str) -> str:
    return name if "/" in name else f"default/{name}"


def _prices(file: str | None, horizon: str | None) -> "Prices":
    import msgspec

    from tonnage.config.notes import ConfigError
    from tonnage.config.pricefile import load_prices
    from tonnage.plan.defrag.prices import Prices

    try:
        prices = Prices() if file is None else load_prices(file)
    except ConfigError as error:
        raise BadInput(f"the prices are not valid\n{error}") from error
    if horizon is not None:
        _duration("--horizon", horizon)
        prices = msgspec.structs.replace(prices, horizon=horizon)
    return prices


def _duration(flag: str, text: str) -> float:
    from tonnage.model.duration import DurationError, seconds

    try:
        return seconds(text)
    except DurationError as error:
        raise click.BadParameter(str(error), param_hint=flag) from error


def _made(
    view: "ClusterView",
    goal: "Goal",
    prices: "Prices",
    not_before: str | None,
    time_limit: float,
    given: dict[str, Any],
) -> "DefragPlan":
    """The plan; ends the command if there is nothing to plan for."""
    import msgspec

    from tonnage.framework.session import SessionError
    from tonnage.plan.defrag.planner import PlanError, Planner

    begin = time.monotonic()
    view.cluster.now = view.now()
    asked = _asked(view, goal, prices, not_before, given)
    planner = Planner(view.cluster, view.plugins, view.actions, view.decided_by)
    try:
        with _searching(time_limit):
            plan = planner.plan(asked, lambda: time_limit - (time.monotonic() - begin))
    except (PlanError, SessionError) as error:
        raise BadInput(str(error)) from error
    return msgspec.structs.replace(plan, problems=list(view.live.problems()))


@contextmanager
def _searching(time_limit: float) -> Iterator[None]:
    """Show on a terminal that the search goes on."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"searching, for {time_limit:g} s at most"):
        yield


def _asked(
    view: "ClusterView", goal: "Goal", prices: "Prices", not_before: str | None, given: dict[str, Any]
) -> "PlanRequest":
    from tonnage.model.timestamp import TimestampError, timestamp
    from tonnage.plan.defrag.limits import Limits
    from tonnage.plan.defrag.planner import PlanRequest

    limits = Limits(
        pods=given["max_pods"],
        gpu_hours=given["max_gpu_hours"],
        pods_per_namespace=given["max_pods_per_namespace"],
        gpu_hours_per_namespace=given["max_gpu_hours_per_namespace"],
        pods_per_queue=given["max_pods_per_queue"],
        gpu_hours_per_queue=given["max_gpu_hours_per_queue"],
        minimum_runtime=_duration("--min-runtime", given["min_runtime"]),
        preemptible_only=not given["include_non_preemptible"],
    )
    at: float | None = None
    if not_before is not None:
        try:
            at = timestamp(not_before)
        except TimestampError as error:
            raise click.BadParameter(str(error), param_hint="--not-before") from error
        if at < view.now():
            raise click.BadParameter(f"{not_before} is in the past", param_hint="--not-before")
    return PlanRequest(goal, limits, prices, view.now(), at)


def _write_page(plan: "DefragPlan", view: "ClusterView", path: str) -> None:
    from tonnage.report.defragpage import render_plan
    from tonnage.report.render import UnwritableReportError, write_page

    try:
        write_page(render_plan(plan, view.cluster), Path(path))
    except UnwritableReportError as error:
        raise BadInput(str(error)) from error
