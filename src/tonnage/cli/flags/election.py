"""The flags by which replicas agree who leads, with kube-scheduler's names."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from tonnage.server.flags import parsed, switch

if TYPE_CHECKING:
    from tonnage.kube.leaderelection.leaderelector import LeaderElectionConfig

_PREFIX = "--leader-elect"


def election_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the flags, and what they come to as `election`: nothing if this process always leads."""

    @wraps(command)
    def with_election(
        leader_elect: bool,
        no_leader_elect: bool,
        leader_elect_resource_namespace: str,
        leader_elect_resource_name: str,
        leader_elect_lease_duration: float,
        leader_elect_renew_deadline: float,
        leader_elect_retry_period: float,
        **given: Any,
    ) -> Any:
        from tonnage.kube.leaderelection.candidate import Durations

        durations = Durations(
            lease_duration=leader_elect_lease_duration,
            renew_deadline=leader_elect_renew_deadline,
            retry_period=leader_elect_retry_period,
        )
        election = None
        if leader_elect and not no_leader_elect:
            if problem := durations.problem():
                raise click.UsageError(f"{_PREFIX}: {problem}")
            election = _election(leader_elect_resource_namespace, leader_elect_resource_name, durations)
        return command(election=election, **given)

    decorated: Callable[..., Any] = with_election
    options: list[Callable[..., Any]] = [
        switch(_PREFIX, True, "Whether replicas agree by a Lease which of them schedules; without, run only one."),
        click.option("--no-leader-elect", is_flag=True, hidden=True),
        _text("resource-namespace", "kube-system", "The namespace of the Lease."),
        _text("resource-name", "tonnage-scheduler", "The Lease."),
        _seconds("lease-duration", "9s", "When others may take a Lease that is not renewed."),
        _seconds("renew-deadline", "6s", "When one that cannot renew the Lease stops to write."),
        _seconds("retry-period", "1s", "How often the Lease is renewed or looked at."),
    ]
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def _text(name: str, default: str, words: str) -> Callable[..., Any]:
    return click.option(f"{_PREFIX}-{name}", default=default, show_default=True, metavar="NAME", help=words)


def _seconds(name: str, default: str, words: str) -> Callable[..., Any]:
    return click.option(
        f"{_PREFIX}-{name}",
        default=default,
        show_default=True,
        metavar="DURATION",
        callback=parsed("duration"),
        help=words,
    )


def _election(namespace: str, name: str, durations: Any) -> "LeaderElectionConfig":
    """Who this process is: its host, and a part that no other process has, be it its successor."""
    import socket
    import uuid

    from tonnage.kube.leaderelection.leaderelector import LeaderElectionConfig

    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    return LeaderElectionConfig(namespace=namespace, name=name, identity=identity, durations=durations)
