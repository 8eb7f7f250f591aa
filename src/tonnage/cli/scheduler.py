"""`tonnage scheduler`: the batch scheduler for the pods of a cluster that name it."""

import asyncio
import logging
import os
import signal
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.flags.election import election_options
from tonnage.cli.flags.policy import decided_by, policy_option
from tonnage.cli.inputs import (
    STANDARD_INPUT,
    BadInput,
    configuration,
    device_config_file,
    device_vendors,
    find_plugins,
)
from tonnage.cli.startup import importing
from tonnage.server.flags import parsed, switch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from tonnage.dashboard.mounting import MountedDashboard
    from tonnage.devices.base import Vendor
    from tonnage.kube.client import Client
    from tonnage.kube.leaderelection.leaderelector import LeaderElectionConfig
    from tonnage.kube.ratelimit import RateLimit
    from tonnage.kube.watch import Backoff
    from tonnage.scheduler.metrics import SchedulerMetrics
    from tonnage.scheduler.reload.reloader import Configuration, Reloader
    from tonnage.scheduler.reload.sources import ConfigMapSource, ConfigSource, MapName
    from tonnage.scheduler.service import SchedulerService
    from tonnage.server.authorization import Authorizer
    from tonnage.server.endpoint import Endpoint
    from tonnage.server.flagvalues import Address

log = logging.getLogger("tonnage.scheduler")

_MUTE_SECONDS = 1.0
"""After how many seconds HTTP requests are answered at the latest, however many pods are still to be bound."""


def _config(_context: click.Context, _parameter: click.Parameter, text: str | None) -> "str | MapName | None":
    if text is None:
        return None
    from tonnage.scheduler.reload.sources import map_name

    try:
        return map_name(text) or text
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command("scheduler")
@click.option(
    "--config",
    callback=_config,
    metavar="FILE",
    help="The scheduler configuration, or configmap:NAMESPACE/NAME[/KEY] for one that a ConfigMap holds; "
    "changes are taken over. Without one, HAMi's policies.",
)
@policy_option
@device_config_file
@click.option(
    "--scheduler-name",
    default="tonnage",
    show_default=True,
    metavar="NAME",
    help="Schedule the pods whose spec.schedulerName is this; the pods of others count as usage.",
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="How to reach the cluster; else $KUBECONFIG, the pod's service account, or ~/.kube/config.",
)
@click.option("--context", metavar="NAME", help="The context in the kubeconfig file; by default its current one.")
@click.option(
    "--bind-workers",
    type=click.IntRange(1, 4096),
    default=32,
    show_default=True,
    help="How many Bindings are on their way to the API server at once.",
)
@click.option(
    "--group-wait",
    default="5s",
    show_default=True,
    callback=parsed("duration"),
    metavar="DURATION",
    help="How long a pod is held for which Volcano's or KAI's controllers are about to make a PodGroup; 0 for not.",
)
@click.option(
    "--volume-timeout",
    default="10m",
    show_default=True,
    callback=parsed("duration"),
    metavar="DURATION",
    help="How long a pod keeps its place while the volumes of its claims are being bound.",
)
@click.option(
    "--http-bind",
    default=":8080",
    show_default=True,
    callback=parsed("address"),
    metavar="HOST:PORT",
    help="Where to answer /healthz, /livez, /readyz, /metrics and, to loopback peers, /debug.",
)
@click.option("--cert-file", default="", metavar="FILE", help="The TLS certificate; with the key, HTTPS.")
@click.option("--key-file", default="", metavar="FILE", help="The TLS key.")
@switch(
    "--authorize-metrics",
    False,
    "Whether /metrics and /debug answer, over HTTPS, only loopback peers and whom the API server lets get that path, "
    "by bearer token.",
)
@switch(
    "--dashboard",
    False,
    "Whether to serve the dashboard under /dashboard, to loopback peers and, with --authorize-metrics, to whom the API "
    "server lets look.",
)
@click.option(
    "--kube-qps",
    type=click.FloatRange(min=0),
    metavar="NUMBER",
    help="The most requests a second to the API server; no limit if it is not given.",
)
@click.option(
    "--kube-burst",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="The most such requests at once; twice the rate if it is not given.",
)
@switch("--debug", False, "Whether to log every decision.")
@election_options
def command(
    config: "str | MapName | None",
    policy: str | None,
    device_config_file: str | None,
    scheduler_name: str,
    kubeconfig: str | None,
    context: str | None,
    bind_workers: int,
    group_wait: float,
    volume_timeout: float,
    http_bind: "Address",
    cert_file: str,
    key_file: str,
    authorize_metrics: bool,
    dashboard: bool,
    kube_qps: float | None,
    kube_burst: int | None,
    debug: bool,
    election: "LeaderElectionConfig | None",
) -> None:
    """Schedule the pods of a cluster that name it: gangs start whole, queues get their share, pods share GPUs.

    Works until it is told to stop (SIGTERM or Ctrl-C).
    """
    with importing():
        import uvloop

        from tonnage.kube.client import connect
        from tonnage.kube.errors import KubeError
        from tonnage.kube.ratelimit import limit_warnings, request_limit
        from tonnage.kube.supervision import GaveUpError
        from tonnage.observability.logs import log_to_stderr
        from tonnage.server.endpoint import Endpoint, ServeError

    if bool(cert_file) != bool(key_file):
        raise click.UsageError("--cert-file and --key-file belong together; give both, or neither for plain HTTP")
    if authorize_metrics and not cert_file:
        raise click.UsageError(
            "--authorize-metrics needs --cert-file and --key-file: tokens must not be sent in the clear"
        )
    if policy is not None and config is not None:
        raise click.UsageError("give either --policy or --config; a configuration that changes is followed as it is")
    place = Endpoint(*http_bind, cert_file, key_file)
    log_to_stderr(debug)
    for warning in limit_warnings(kube_qps, kube_burst):
        click.echo(f"warning: {warning}", err=True)
    limit = request_limit(kube_qps, kube_burst)
    try:
        uvloop.run(
            _serve(
                partial(_given, device_config_file, config, policy),
                config,
                scheduler_name,
                partial(connect, kubeconfig, context),
                bind_workers,
                group_wait,
                volume_timeout,
                place,
                authorize_metrics,
                dashboard,
                limit,
                election,
            )
        )
    except (GaveUpError, KubeError, ServeError) as error:
        raise click.ClickException(str(error)) from error


def _given(
    device_config_file: str | None, config: "str | MapName | None", policy: str | None
) -> "tuple[Sequence[Vendor], Configuration]":
    """The vendors and the configuration of files, or of the defaults; imports all that schedules."""
    import_module("tonnage.scheduler.service")
    vendors = device_vendors(device_config_file)
    return vendors, _from_file(config) if isinstance(config, str) else _default(policy)


def _loaded(text: str, name: str) -> "Configuration":
    """The configuration in a text; ConfigError with all that is wrong."""
    from tonnage.actions.catalog import make_actions
    from tonnage.config.load import load_text
    from tonnage.scheduler.reload.reloader import Configuration

    settings = load_text(text, name, find_plugins(()))
    warnings = [note.shown(settings.source, "warning") for note in settings.warnings]
    return Configuration(text, settings.plugins, make_actions(settings.actions), warnings)


def _default(policy: str | None) -> "Configuration":
    from tonnage.actions.catalog import make_actions
    from tonnage.config.defaults import written_text
    from tonnage.scheduler.reload.reloader import Configuration

    _, plugins, actions = decided_by(policy, None, find_plugins(()))
    return Configuration(partial(written_text, plugins, actions), plugins, make_actions(actions))


@contextmanager
def _wrong_is_the_end() -> "Iterator[None]":
    """At the start there is nothing else to go by."""
    from tonnage.config.notes import ConfigError

    try:
        yield
    except ConfigError as error:
        raise BadInput(f"the configuration is not valid\n{error}") from error


def _from_file(file: str) -> "Configuration":
    with _wrong_is_the_end():
        return _said(_loaded(*configuration(file)))


async def _from_config_map(source: "ConfigMapSource") -> "Configuration":
    with _wrong_is_the_end():
        return _said(_loaded(await source.read(), source.name))


def _said(found: "Configuration") -> "Configuration":
    for warning in found.warnings:
        click.echo(warning, err=True)
    return found


async def _serve(
    given: "Callable[[], tuple[Sequence[Vendor], Configuration]]",
    config: "str | MapName | None",
    scheduler_name: str,
    connect: "Callable[..., Awaitable[Client]]",
    bind_workers: int,
    group_wait: float,
    volume_timeout: float,
    place: "Endpoint",
    authorize_metrics: bool,
    dashboard: bool,
    limit: "RateLimit | None",
    election: "LeaderElectionConfig | None",
) -> None:
    """Schedule until told to stop; the first lists are made while the engine is imported."""
    with importing():
        import random
        import time

        from tonnage.kube.errors import KubeError
        from tonnage.kube.firstlists import FirstLists
        from tonnage.kube.leaderelection.leaderelector import LeaderElector
        from tonnage.kube.leaderelection.lease import since_boot
        from tonnage.kube.supervision import watch_callbacks
        from tonnage.model.kinds import KINDS

    watch_callbacks(asyncio.get_running_loop())
    async with AsyncExitStack() as stack:
        loading = asyncio.create_task(asyncio.to_thread(given))
        try:
            client = await connect(limit=limit)
        except KubeError:
            # What is wrong with a configuration needs no cluster to be said.
            await loading
            raise
        stack.push_async_callback(client.close)
        elector = None if election is None else LeaderElector(connect, election, since_boot, time.time)
        look = None if elector is None else partial(elector.look, client.unlimited)
        first_lists = FirstLists(client, [kind.path for kind in KINDS], look)
        stack.push_async_callback(first_lists.close)
        with importing():
            vendors, first = await loading

            from tonnage.framework.session import SessionError
            from tonnage.kube.watch import Backoff
            from tonnage.scheduler.metrics import SchedulerMetrics
            from tonnage.scheduler.reload.reloader import Reloader
            from tonnage.scheduler.service import SchedulerService

        metrics = SchedulerMetrics()
        client.observer = metrics.wrote
        backoff = Backoff(draw=random.random)
        source, first = await _followed(config, first, client, backoff)
        service = SchedulerService(
            client,
            vendors,
            first.plugins,
            first.actions,
            backoff,
            metrics,
            scheduler_name,
            bind_workers,
            elector,
            group_wait,
            volume_timeout,
            first_lists,
        )
        namespace, name = os.environ.get("POD_NAMESPACE"), os.environ.get("POD_NAME")
        pod = f"{namespace}/{name}" if namespace and name else ""
        reloading = Reloader(first, source, _loaded, service, metrics, pod)
        log.info("scheduling the pods of %s for %s; health and metrics at %s", scheduler_name, client.server, place)
        try:
            reviewer = client.unlimited if authorize_metrics else None
            await _run(service, metrics, reloading, reviewer, place, dashboard)
        except SessionError as error:
            raise click.ClickException(str(error)) from error


async def _followed(
    config: "str | MapName | None", first: "Configuration", client: "Client", backoff: "Backoff"
) -> "tuple[ConfigSource | None, Configuration]":
    """Where new configurations come from, if anywhere, and the first one."""
    if config is None or config == STANDARD_INPUT:
        return None, first
    from tonnage.scheduler.reload.sources import ConfigMapSource, FileSource

    if isinstance(config, str):
        return FileSource(config), first
    source = ConfigMapSource(client, config, backoff)
    return source, await _from_config_map(source)


async def _run(
    service: "SchedulerService",
    metrics: "SchedulerMetrics",
    reloading: "Reloader",
    reviewer: "Client | None",
    place: "Endpoint",
    dashboard: bool,
) -> None:
    """Schedule and answer HTTP requests until told to stop."""
    from tonnage.kube.supervision import first_cause, keep_running

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    running = asyncio.create_task(service.run(keep_running("reload", reloading.run)))
    running.add_done_callback(lambda _: stop.set())
    try:
        await _answer(service, metrics, reloading, reviewer, place, stop, dashboard)
    finally:
        await service.stop()
        running.cancel()
        (failure,) = await asyncio.gather(running, return_exceptions=True)
    if isinstance(failure, Exception):
        cause = first_cause(failure)
        log.critical("the scheduler ends: %s: %s", type(cause).__name__, cause)
        raise cause from failure


async def _answer(
    service: "SchedulerService",
    metrics: "SchedulerMetrics",
    reloading: "Reloader",
    reviewer: "Client | None",
    place: "Endpoint",
    stop: asyncio.Event,
    dashboard: bool,
) -> None:
    """Answer HTTP requests until told to stop; the first pods are bound before the modules for that are imported."""
    from tonnage.kube.supervision import keep_running

    await _first_of(service.has_started, stop)
    http, routes, authorization = await asyncio.to_thread(_server_modules)
    health = routes.health_of(service)
    authorizer = None if reviewer is None else authorization.Authorizer(reviewer)
    checking = asyncio.create_task(keep_running("health", health.run))
    checking.add_done_callback(lambda _: stop.set())
    board = _dashboard(service, authorizer) if dashboard else None
    looking = asyncio.create_task(board.run(stop)) if board is not None else None
    more = board.routes if board else ()
    try:
        await http.serve([(routes.app(service, metrics, reloading, health, authorizer, more), place)], stop)
    finally:
        if looking is not None:
            looking.cancel()
        checking.cancel()
        (failure,) = await asyncio.gather(checking, return_exceptions=True)
    if isinstance(failure, Exception):
        raise failure


async def _first_of(*events: asyncio.Event) -> None:
    """Wait for one of some events, but not for long."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=_MUTE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _server_modules() -> tuple[Any, ...]:
    names = ("tonnage.server.http", "tonnage.scheduler.app", "tonnage.server.authorization")
    return tuple(import_module(name) for name in names)


def _dashboard(service: "SchedulerService", authorizer: "Authorizer | None") -> "MountedDashboard":
    """The scheduler's dashboard; imported only if it is asked for."""
    from tonnage.dashboard.mounting import mounted
    from tonnage.dashboard.sources.serversource import ServerSource

    runner = service.cycle_runner
    source = ServerSource(
        "tonnage scheduler",
        service.informer,
        service.recorder,
        lambda: runner.plugins,
        lambda: runner.actions,
        runner.queue_figures,
    )
    return mounted(source, authorizer)
