"""`tonnage extender`: webhook, filter and bind for a cluster's kube-scheduler."""

import asyncio
import logging
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.flags.policy import decided_by, policy_option
from tonnage.cli.inputs import find_plugins, valid_vendors
from tonnage.cli.startup import importing
from tonnage.extender.flags import extender_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonnage.certificates.keeper import CertificateKeeper
    from tonnage.dashboard.mounting import MountedDashboard
    from tonnage.devices.base import Vendor
    from tonnage.extender.forwarding import PeerTls
    from tonnage.extender.options import ExtenderOptions
    from tonnage.extender.recorder import ExtenderRecorder
    from tonnage.extender.replicas import SchedulerLeaseConfig
    from tonnage.extender.service import ExtenderService
    from tonnage.framework.plugin import Plugin
    from tonnage.kube.client import Client
    from tonnage.server.authorization import Authorizer

log = logging.getLogger("tonnage.extender")


@click.command("extender")
@policy_option
@extender_options
def command(options: "ExtenderOptions", policy: str | None) -> None:
    """Serve webhook, filter and bind for a cluster's kube-scheduler, in place of HAMi's scheduler.

    Takes HAMi's flags and device configuration. Listens until it is told to stop (SIGTERM or Ctrl-C), then lets open
    requests finish.
    """
    with importing():
        import uvloop

        from tonnage.certificates.errors import CertificateError
        from tonnage.kube.errors import KubeError
        from tonnage.kube.supervision import GaveUpError
        from tonnage.observability.logs import log_to_stderr
        from tonnage.server.endpoint import ServeError

    log_to_stderr(options.debug)
    for warning in options.warnings:
        click.echo(f"warning: {warning}", err=True)
    vendors, plugins = _vendors(options), _plugins(options, policy)
    try:
        uvloop.run(_serve(options, vendors, plugins))
    except (CertificateError, GaveUpError, KubeError, ServeError) as error:
        raise click.ClickException(str(error)) from error


def _vendors(options: "ExtenderOptions") -> "Sequence[Vendor]":
    from tonnage.extender.vendors import configured_vendors

    return valid_vendors(lambda: configured_vendors(options))


def _plugins(options: "ExtenderOptions", policy: str | None) -> "Sequence[Plugin]":
    from tonnage.config.defaults import with_flags

    plugins = decided_by(policy, options.config or None, find_plugins(())).plugins
    return with_flags(plugins, options.node_scheduler_policy, options.gpu_scheduler_policy, None)


def _election(options: "ExtenderOptions") -> "SchedulerLeaseConfig | None":
    """By which lease replicas agree; who this one is comes from its host and, for its pod, from the environment."""
    import os
    import socket

    from tonnage.extender.replicas import SchedulerLeaseConfig

    if not options.leader_elect:
        return None
    host = socket.gethostname()
    return SchedulerLeaseConfig(
        lease_namespace=options.leader_elect_resource_namespace,
        lease_name=options.leader_elect_resource_name,
        host=host,
        pod_namespace=os.environ.get("POD_NAMESPACE") or options.leader_elect_resource_namespace,
        pod=os.environ.get("POD_NAME") or host,
        peer_tls=_peer_tls(options),
    )


def _peer_tls(options: "ExtenderOptions") -> "PeerTls | None":
    from tonnage.extender.forwarding import PeerTls

    if options.peer_bind is None:
        return None
    return PeerTls(
        port=options.peer_bind.port,
        certificate=options.peer_cert_file,
        key=options.peer_key_file,
        authority=options.peer_ca_file,
    )


async def _serve(options: "ExtenderOptions", vendors: "Sequence[Vendor]", plugins: "Sequence[Plugin]") -> None:
    import random
    import time

    with importing():
        from tonnage.extender.metrics import ExtenderMetrics
        from tonnage.extender.recorder import ExtenderRecorder
        from tonnage.extender.service import ExtenderService
        from tonnage.extender.webhook.admission import AdmissionRules, PodAdmission
        from tonnage.extender.webhook.review import answer, decide, read_review
        from tonnage.kube.client import connect
        from tonnage.kube.ratelimit import request_limit
        from tonnage.kube.supervision import first_cause, keep_running, watch_callbacks
        from tonnage.kube.watch import Backoff
        from tonnage.observability.events import EventRecorder
        from tonnage.server.access import CallerAccess
        from tonnage.server.authorization import Authorizer, authorized
        from tonnage.server.callers import Guard, anybody
        from tonnage.server.endpoint import Endpoint
        from tonnage.server.explaining import explain_route
        from tonnage.server.http import serve

    limit = request_limit(options.kube_qps, options.kube_burst)
    client = await connect(options.kubeconfig or None, options.context or None, limit)
    rules = AdmissionRules(
        scheduler_name=options.scheduler_name,
        overwrite_default_scheduler=options.force_overwrite_default_scheduler,
        deny_privileged=options.privileged_pods == "deny",
    )

    def review(body: bytes) -> bytes:
        question = read_review(body)
        return answer(question, decide(question.request, admission.judge))

    keepers = await _own_certificates(options, client)
    metrics = ExtenderMetrics()
    client.observer = metrics.wrote
    events = EventRecorder(client, time.time, options.scheduler_name or "tonnage", metrics.event)
    recorder_of_pods = ExtenderRecorder(metrics, events)
    service = ExtenderService(
        client,
        vendors,
        plugins,
        Backoff(draw=random.random),
        recorder_of_pods,
        review,
        decides=options.placement == "extender",
        reservation_seconds=options.reservation_timeout,
        turn_seconds=options.node_lock_retry_timeout,
        election=_election(options),
        scheduler_name=options.scheduler_name,
    )
    admission = PodAdmission(vendors, rules, service.cluster.quotas)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    watch_callbacks(loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    place = Endpoint(*options.http_bind, options.cert_file, options.key_file, options.client_ca_file)
    metrics_place = Endpoint(*options.metrics_bind_address)
    guard: Guard = anybody
    authorizer: Authorizer | None = None
    if options.authorize_metrics:
        metrics_place = Endpoint(*options.metrics_bind_address, options.cert_file, options.key_file)
        authorizer = Authorizer(client.unlimited)
        guard = partial(authorized, authorizer)
    board = _dashboard(service, recorder_of_pods, plugins, authorizer) if options.dashboard else None
    access = CallerAccess(authorizer, lambda: service.cluster)
    explaining = explain_route(service.ready, service.scheduled, access.viewer_of())
    more = [explaining, *(board.routes if board else ())]
    running = asyncio.create_task(service.run())
    recorder = asyncio.create_task(keep_running("events", events.run))
    renewals = [asyncio.create_task(keep_running("own certificates", keeper.run)) for keeper in keepers]
    tasks = [running, recorder, *renewals]
    for task in tasks:
        task.add_done_callback(lambda _: stop.set())
    looking = asyncio.create_task(board.run(stop)) if board is not None else None
    try:
        log.info("serving %s, metrics at %s, for %s", place, metrics_place, client.server)
        apps: list[tuple[Any, Endpoint]] = [
            (metrics.timings.timed(service.extender.app(service.health)), place),
            (metrics.app(service, options.legacy_metrics, guard, more), metrics_place),
        ]
        if options.peer_bind is not None:
            files = options.peer_cert_file, options.peer_key_file, options.peer_ca_file
            peer_place = Endpoint(*options.peer_bind, *files, needs_client_certificate=True)
            apps.append((metrics.timings.timed(service.extender.peer_app()), peer_place))
        await serve(apps, stop)
    finally:
        for task in tasks:
            task.cancel()
        if looking is not None:
            looking.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()
    for failure in outcomes:
        if isinstance(failure, Exception):
            cause = first_cause(failure)
            log.critical("the extender ends: %s: %s", type(cause).__name__, cause)
            raise cause from failure


async def _own_certificates(options: "ExtenderOptions", client: "Client") -> "list[CertificateKeeper]":
    """The keepers of certificates that this process makes, each with its files in place."""
    import time

    if not options.certificate_secret and not options.peer_certificate_secret:
        return []
    with importing():
        from tonnage.extender.owncertificates import certificate_keepers

    keepers = list(certificate_keepers(options, client.unlimited, time.time))
    for keeper in keepers:
        await keeper.begin()
    return keepers


def _dashboard(
    service: "ExtenderService",
    recorder: "ExtenderRecorder",
    plugins: "Sequence[Plugin]",
    authorizer: "Authorizer | None",
) -> "MountedDashboard":
    """The extender's dashboard; imported only if it is asked for."""
    from tonnage.config.defaults import DEFAULT_ACTIONS
    from tonnage.dashboard.mounting import mounted
    from tonnage.dashboard.sources.serversource import ServerSource

    source = ServerSource("tonnage extender", service.informer, recorder, lambda: plugins, lambda: DEFAULT_ACTIONS)
    return mounted(source, authorizer)
