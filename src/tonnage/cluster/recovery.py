"""The recovery of the cluster state from an update that raises: one bad object costs only itself.

An update reads the whole object first and then changes the state, without reading anything more. So an object that
cannot be read leaves the state as it was; a pod then counts with its fallback reading. Whatever raises while the state
changes is a bug and may leave it half changed: then the facts about that object are set, and everything that follows
from facts is worked out anew, in some 0.1 s for 1,000 nodes. The error is always passed on to the caller, who reports
it; the state is whole by then.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

from tonnage.cluster.cluster import Cluster, PodReading
from tonnage.cluster.fallback import fallback_reading
from tonnage.cluster.holding import Holding, ImplicitDevice
from tonnage.cluster.task import Task
from tonnage.model.node import Node
from tonnage.model.pod import Pod


@contextmanager
def recovery(cluster: Cluster) -> Iterator[None]:
    """Make the state whole if the body raises: objects that the body has set count, and others count as before."""
    try:
        yield
    except Exception:
        _rebuild(cluster, cluster.holdings.all())
        raise


def _rebuild(cluster: Cluster, held: Mapping[str, Holding], last: str = "") -> None:
    cluster.rebuild({key: one for key, one in held.items() if key in cluster.running or key in cluster.reserved}, last)


def recovering(update: Callable[..., None]) -> Callable[..., None]:
    """An update of the cluster, its first argument, with recovery."""

    @wraps(update)
    def safe(cluster: Cluster, *arguments: Any) -> None:
        with recovery(cluster):
            update(cluster, *arguments)

    return safe


# -- pods


class _Before(NamedTuple):
    """What was known of a pod before an update."""

    task: Task | None = None
    """Its task if it had a node or a reservation."""
    held: Holding | None = None
    is_reserved: bool = False
    is_pipelined: bool = False
    assigned: Mapping[ImplicitDevice, str] = {}
    """The assignments of cards on the node where it holds something."""


_NOTHING_KNOWN = _Before()


def take_pod(cluster: Cluster, pod: Pod) -> None:
    """Add a pod or change it; if that raises, the pod counts nevertheless, with what is certain about it."""
    before = _NOTHING_KNOWN
    try:
        before = _before(cluster, pod.key)
        reading = None if pod.holds_nothing else cluster.read_pod(pod)
    except Exception as error:
        _put(cluster, pod, _fallback(cluster, pod, before, error), before)
        raise
    if reading is not None:
        _put(cluster, pod, reading, before)
        return
    try:
        cluster.finish_pod(pod)
    except Exception:
        _forget(cluster, pod.key)
        raise


def drop_pod(cluster: Cluster, key: str) -> None:
    """Forget a pod and free what it held, even if that raises."""
    try:
        cluster.remove_pod(key)
    except Exception:
        _forget(cluster, key)
        raise


def _before(cluster: Cluster, key: str) -> _Before:
    held = cluster.held(key)
    state = cluster.nodes.get(held.node) if held is not None else None
    assigned = dict(state.assigned) if state is not None and state.assigned else {}
    reserved = cluster.reserved.get(key)
    return _Before(reserved or cluster.running.get(key), held, reserved is not None, key in cluster.pipelined, assigned)


def _fallback(cluster: Cluster, pod: Pod, before: _Before, error: Exception) -> PodReading:
    return fallback_reading(pod, before.task, before.held, cluster.vendors, error)


def _put(cluster: Cluster, pod: Pod, reading: PodReading, before: _Before) -> None:
    try:
        cluster.put_pod(reading)
    except Exception as error:
        try:
            _force(cluster, reading, before)
        except Exception:
            _force(cluster, _fallback(cluster, pod, before, error), before)
        raise


def _force(cluster: Cluster, reading: PodReading, before: _Before) -> None:
    """Set the facts about a pod, and work out the rest anew."""
    held, key = cluster.holdings.all(), reading.task.key
    state = cluster.nodes.get(before.held.node) if before.held is not None else None
    if state is not None:
        state.assigned = dict(before.assigned)
    is_same = before.is_reserved and before.task is not None and before.task.uid == reading.task.uid
    reserved = before.held if is_same and reading.holding is None else None
    cluster.force_pod(reading, reserved, pipelined=before.is_pipelined)
    holding = reading.holding or reserved
    _rebuild(cluster, held if holding is None else {**held, key: holding}, key)


def _forget(cluster: Cluster, key: str) -> None:
    """Forget the facts about a pod, and work out the rest anew."""
    cluster.forget_pod(key)
    _rebuild(cluster, cluster.holdings.all())


# -- nodes


def take_node(cluster: Cluster, node: Node) -> None:
    """Add a node or change it; if that raises, the node is as it was or as it is now."""
    news = cluster.read_node(node)
    if news is None:
        return
    try:
        cluster.put_node(news)
    except Exception:
        state = cluster.nodes.get(node.name)
        if state is not None:
            state.adopt(cluster.rows.read(state.node))
        _rebuild(cluster, cluster.holdings.all())
        raise


def drop_node(cluster: Cluster, name: str) -> None:
    """Forget a node, even if that raises; its pods keep what they hold."""
    state = cluster.nodes.get(name)
    try:
        cluster.remove_node(name)
    except Exception:
        cluster.nodes.pop(name, None)
        _rebuild(cluster, {**cluster.holdings.all(), **(state.holdings if state is not None else {})})
        raise
