"""`tonnage scheduler`: the batch scheduler for the pods of a cluster that name it."""

import asyncio
import logging
import signal
from typing import TYPE_CHECKING

import click

from tonnage.cli.inputs import BadInput, find_plugins, load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonnage.devices.base import Vendor
    from tonnage.extender.flagvalues import Address
    from tonnage.framework.action import Action
    from tonnage.framework.plugin import Plugin

log = logging.getLogger("tonnage.batch")


def _address(_context: click.Context, _parameter: click.Parameter, text: str) -> "Address":
    from tonnage.extender.flagvalues import address

    try:
        return address(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command("scheduler")
@click.option("--config", "config", metavar="FILE", help="The scheduler configuration; without one, HAMi's policies.")
@click.option("--device-config-file", metavar="FILE", help="HAMi's device configuration; without one, its defaults.")
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
@click.option(
    "--bind-workers",
    type=click.IntRange(1, 4096),
    default=32,
    show_default=True,
    help="How many Bindings are on their way to the API server at once.",
)
@click.option(
    "--http-bind",
    default=":8080",
    show_default=True,
    callback=_address,
    metavar="HOST:PORT",
    help="Where to answer /healthz, /readyz and /metrics.",
)
@click.option("--debug", is_flag=True, help="Log every decision.")
def command(
    config: str | None,
    device_config_file: str | None,
    scheduler_name: str,
    kubeconfig: str | None,
    bind_workers: int,
    http_bind: "Address",
    debug: bool,
) -> None:
    """Schedule the pods of a cluster that name it: gangs start whole, queues get their share, pods share GPUs.

    Works until it is told to stop (SIGTERM or Ctrl-C).
    """
    import uvloop

    from tonnage.doors.logs import log_to_stderr
    from tonnage.doors.serve import ServeError
    from tonnage.framework.session import SessionError
    from tonnage.kube.errors import KubeError

    log_to_stderr(debug)
    vendors = _vendors(device_config_file)
    chosen, actions = _configured(config)
    try:
        uvloop.run(_serve(vendors, chosen, actions, scheduler_name, kubeconfig, bind_workers, http_bind))
    except (KubeError, ServeError, SessionError) as error:
        raise click.ClickException(str(error)) from error


def _vendors(file: str | None) -> "Sequence[Vendor]":
    from tonnage.devices.catalog import default_vendors
    from tonnage.settings.deviceconfig import load_devices_file
    from tonnage.settings.notes import SettingsError

    if file is None:
        return default_vendors()
    try:
        found = load_devices_file(file)
    except SettingsError as error:
        raise BadInput(f"the device configuration is not valid\n{error}") from error
    for note in found.warnings:
        click.echo(note.shown(found.source, "warning"), err=True)
    return found.vendors


def _configured(file: str | None) -> "tuple[Sequence[Plugin], Sequence[Action]]":
    """The plugins and actions of the configuration; actions that stop pods are left out for now."""
    from tonnage.actions.catalog import make_actions
    from tonnage.plugins.stock import stock_plugins
    from tonnage.settings.defaults import DEFAULT_ACTIONS
    from tonnage.settings.notes import SettingsError

    plugins, names = stock_plugins(), list(DEFAULT_ACTIONS)
    if file is not None:
        try:
            settings = load_settings(file, find_plugins(()))
        except SettingsError as error:
            raise BadInput(f"the configuration is not valid\n{error}") from error
        for note in settings.warnings:
            click.echo(note.shown(settings.source, "warning"), err=True)
        plugins, names = settings.plugins, settings.actions
    stopping = [name for name in names if name in _STOPS_PODS]
    if stopping:
        click.echo(f"warning: {', '.join(stopping)}: no pods are stopped yet; left out", err=True)
    return plugins, make_actions([name for name in names if name not in _STOPS_PODS])


_STOPS_PODS = frozenset({"preempt", "reclaim", "consolidation", "stalegangeviction"})


async def _serve(
    vendors: "Sequence[Vendor]",
    plugins: "Sequence[Plugin]",
    actions: "Sequence[Action]",
    scheduler_name: str,
    kubeconfig: str | None,
    bind_workers: int,
    http_bind: "Address",
) -> None:
    import random

    from tonnage.batch.app import app
    from tonnage.batch.metrics import Metrics
    from tonnage.batch.service import Service
    from tonnage.doors.serve import Place, serve
    from tonnage.kube.client import connect
    from tonnage.kube.watch import Pace

    client = await connect(kubeconfig)
    metrics = Metrics()
    pace = Pace(draw=random.random)
    service = Service(client, vendors, plugins, actions, pace, metrics, scheduler_name, bind_workers)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    place = Place(http_bind.host, http_bind.port)
    running = asyncio.create_task(service.run())
    running.add_done_callback(lambda _: stop.set())
    try:
        log.info("scheduling the pods of %s for %s; health and metrics at %s", scheduler_name, client.server, place)
        await serve([(app(service, metrics), place)], stop)
    finally:
        running.cancel()
        (failure,) = await asyncio.gather(running, return_exceptions=True)
        await client.close()
    if isinstance(failure, ExceptionGroup):
        raise failure.exceptions[0]
