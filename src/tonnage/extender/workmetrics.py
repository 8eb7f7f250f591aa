"""Metrics about work that is under way or went wrong, read from those who do it when somebody asks."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tonnage.doors import binding
from tonnage.extender import handshake
from tonnage.extender.binding import Binder
from tonnage.extender.handshake import Handshakes
from tonnage.extender.placing import Placing
from tonnage.framework.session import Session
from tonnage.kube.picture import Picture

F = TypeVar("F", CounterMetricFamily, GaugeMetricFamily)

CONFLICTS = (binding.REFUSED, binding.FOUND_BOUND, binding.FOUND_NOT_BOUND)
LOCKS = (binding.TAKEN, binding.TAKEN_OVER, binding.NOT_TAKEN)
HANDSHAKES = (handshake.ASKED, handshake.WRITTEN_OFF, handshake.NOT_WRITTEN)


class Parts(Protocol):
    """Those who do the work."""

    picture: Picture
    placing: Placing
    binder: Binder
    handshakes: Handshakes
    session: Session


class Work(Collector):
    """What can be read at any time; a count that is still 0 is there too."""

    def __init__(self, parts: Parts, clock: Callable[[], float] = time.monotonic) -> None:
        self._parts = parts
        self._clock = clock
        """The one that places are kept by."""

    def collect(self) -> Iterator[Metric]:
        yield from self._places()
        yield from self._binds()
        yield from self._watch()
        handshakes = _zeros(HANDSHAKES) | self._parts.handshakes.outcomes
        words = "Words written into handshakes with device plugins."
        yield _filled(CounterMetricFamily("tonnage_handshakes", words, labels=("outcome",)), handshakes)
        failures = _zeros(plugin.name for plugin in self._parts.placing.plugins) | self._parts.session.failures
        words = "How often a plugin of the scheduler failed to answer."
        yield _filled(CounterMetricFamily("tonnage_plugin_failures", words, labels=("plugin",)), failures)

    def _places(self) -> Iterator[Metric]:
        placing = self._parts.placing
        ages = {state.value: age for state, age in placing.oldest(self._clock()).items()}
        words = "Age of the oldest place that is kept."
        yield _filled(GaugeMetricFamily("tonnage_reservation_oldest_seconds", words, labels=("state",)), ages)
        words = "Places given up because nobody bound them in time."
        yield CounterMetricFamily("tonnage_reservations_expired", words, placing.expired)

    def _binds(self) -> Iterator[Metric]:
        binder = self._parts.binder
        words = "Binds that are not answered yet, those that wait for their node included."
        yield GaugeMetricFamily("tonnage_binds_in_flight", words, binder.in_flight)
        words = "Labels to write and outcomes to find out behind binds that were answered."
        yield GaugeMetricFamily("tonnage_bind_writes_queued", words, binder.behind)
        words = "Bindings that met a conflict, or whose outcome was not known, by what became of them."
        conflicts = _zeros(CONFLICTS) | binder.conflicts
        yield _filled(CounterMetricFamily("tonnage_bind_conflicts", words, labels=("outcome",)), conflicts)
        words = "Locks of nodes that were written."
        locks = _zeros(LOCKS) | binder.locks
        yield _filled(CounterMetricFamily("tonnage_node_locks", words, labels=("outcome",)), locks)

    def _watch(self) -> Iterator[Metric]:
        now = self._clock()
        silence = {kind: now - follower.heard for kind, follower in self._parts.picture.followers.items()}
        words = "Time since the API server last said something about the kind, be it a bookmark."
        yield _filled(GaugeMetricFamily("tonnage_picture_silence_seconds", words, labels=("kind",)), silence)


def _zeros(names: Iterable[str]) -> dict[str, int]:
    return dict.fromkeys(names, 0)


def _filled(family: F, values: Mapping[str, float]) -> F:
    for label, value in values.items():
        family.add_metric((label,), value)
    return family
