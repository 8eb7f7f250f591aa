"""What the engine says against what the reference says: columns and decisions."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from tests.reference import ObjectScheduler
from tests.reference_objects import Answer, Held
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import CORES, COUNTED, MEMORY, OFFERED, SLOTS, UNLIMITED, USED, CardModel
from tonnage.framework.decision import MOST_SCORES, Decision
from tonnage.framework.session import Session
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.resources import UNSTATED
from tonnage.model.selection import UNSCHEDULABLE
from tonnage.plugins.defaults import default_plugins

COLUMNS = (
    "amounts",
    "allocatable",
    "card_total",
    "card_free",
    "model",
    "foreign",
    "node_total",
    "node_used",
    "vendor_cards",
    "particular",
    "taints",
)


def reference_of(nodes: Mapping[str, Node], held: Mapping[str, Held], policies: dict[str, str]) -> ObjectScheduler:
    """A reference that has counted everything from nothing, looking at nodes in the reverse order of names."""
    reference = ObjectScheduler(**policies, thorough=True)
    for name in sorted(nodes, reverse=True):
        reference.add_node(nodes[name])
    for key, holding in held.items():
        reference.hold(key, holding)
    return reference


def engine_of(cluster: Cluster, policies: dict[str, str]) -> Session:
    return Session(cluster, default_plugins(**policies))


def snapshot(cluster: Cluster) -> dict[str, object]:
    """Everything that a release must restore."""
    cluster.settle()
    columns = {name: getattr(cluster.columns, name).copy() for name in COLUMNS}
    mig = {
        state.name: {card: sorted((p.start, p.size) for p in places) for card, places in state.mig.items() if places}
        for state in cluster.states
    }
    return columns | {"mig": mig, "foreign_total": cluster.columns.foreign_total, "holders": dict(cluster.holders)}


def assert_same(before: dict[str, object], after: dict[str, object]) -> None:
    for name, value in before.items():
        np.testing.assert_equal(after[name], value, err_msg=name)


def in_order(slots: int, memory: int, cores: int) -> np.ndarray:
    """Amounts of a card in the order in which columns keep them."""
    kinds = {SLOTS: slots, MEMORY: memory, CORES: cores}
    return np.array([kinds[kind] for kind in range(3)])


def assert_columns_are_recounted(cluster: Cluster, reference: ObjectScheduler) -> None:
    """Every column equals what the reference counts from the pods."""
    cluster.settle()
    columns = cluster.columns
    names = sorted(reference.hosts)
    assert [state.name for state in cluster.states] == names
    assert columns.size == len(names) == len(columns.version)
    for row, name in enumerate(names):
        host, state = reference.hosts[name], cluster.states[row]
        assert state.row == row
        for resource, position in columns.resources.items():
            free = host.free(resource, reference.counts)
            assert columns.free[position, row] == free, (name, resource)
            used = host.used.get(resource, 0)
            assert columns.allocatable[position, row] == free + used, (name, resource)
            assert columns.amounts[USED, position, row] == used, (name, resource)
            unstated = [dict(zip(UNSTATED, h.unstated, strict=True)) for h in state.holdings.values()]
            counted = used + sum(one.get(resource, 0) for one in unstated)
            assert columns.amounts[COUNTED, position, row] == counted, (name, resource)
            offered = free + used
            there = offered if offered < UNLIMITED else 0
            assert columns.amounts[OFFERED, position, row] == there, (name, resource)
        assert len(state.devices) == len(host.cards)
        sums = np.zeros((2, 3), np.int64)
        for position in range(columns.width):
            total, free_there = columns.card_total[:, position, row], columns.card_free[:, position, row]
            model = columns.models[columns.model[position, row]]
            if position >= len(host.cards):
                assert not total.any()
                assert not free_there.any()
                assert model.vendor == -1
                continue
            card = host.cards[position]
            device = card.device
            condition = "unhealthy" if not device.healthy else "cordoned" if card.cordoned else ""
            number = cluster.vendor_numbers[card.vendor]
            assert model == CardModel(number, device.type, device.mode, device.profiles, condition)
            sizes = in_order(device.count, device.memory, device.cores)
            used_there = in_order(card.slots, card.memory, card.cores)
            assert total.tolist() == sizes.tolist(), (name, device.uuid)
            assert free_there.tolist() == (sizes - used_there).tolist(), (name, device.uuid)
            taken = sorted((place.start, place.size) for place in state.mig.get(position, ()))
            assert taken == sorted((place.start, place.size) for place in card.placements), (name, device.uuid)
            sums += sizes, used_there
        assert columns.node_total[:, row].tolist() == [float(total or np.inf) for total in sums[0].tolist()]
        assert columns.node_used[:, row].tolist() == sums[1].tolist()
        for vendor, number in cluster.vendor_numbers.items():
            assert columns.foreign[number, row] == host.foreign.get(vendor, 0), (name, vendor)
            own = [card for card in host.cards if card.vendor == vendor]
            assert columns.vendor_cards[number, row] == len(own)
            assert columns.particular[number, row] == any(card.device.mode == "mig" for card in own)
        taints = (*(host.node.spec.taints or ()), *((UNSCHEDULABLE,) if host.node.spec.unschedulable else ()))
        assert cluster.labels.taint_sets[columns.taints[row]] == taints
    assert columns.foreign_total == sum(sum(host.foreign.values()) for host in reference.hosts.values())
    assert cluster.holders == {key: held.node for key, held in reference.held.items()}


@contextmanager
def explained(reference: ObjectScheduler, pod: Pod, answer: Answer) -> Iterator[None]:
    """Say in a failure what the pod asks for, how the cluster was and what the reference answered."""
    try:
        yield
    except AssertionError as error:
        policies = (reference.node_policy, reference.gpu_policy, reference.numa_order)
        lines = [str(error), f"policies {policies}", f"reference {answer}", f"annotations {pod.annotations}"]
        containers = (*(pod.spec.initContainers or ()), *pod.spec.containers)
        lines += [f"  {one.name} {one.restartPolicy or ''} {one.resources.limits}" for one in containers]
        for name, host in sorted(reference.hosts.items()):
            lines.append(f"{name}: offers {host.offers}, used {host.used}, foreign {host.foreign}, links {host.links}")
            lines += [f"  {card}" for card in host.cards]
        raise AssertionError("\n".join(lines)) from error


def assert_same_answer(decision: Decision, answer: Answer, vendors: tuple[str, ...]) -> None:
    """Node, cards, scores and reasons."""
    counted: Counter[str] = Counter()
    for rejection in decision.rejected:
        counted[rejection.reason] += rejection.count
        assert rejection.message
    expected = Counter(answer.reasons.values())
    # Where more nodes than are shown may fit, the rest is not looked at closely, so not all of it is turned down.
    assert +counted == expected or (len(answer.scores) >= MOST_SCORES and counted <= expected), answer.reasons
    assert decision.node == answer.node
    ranked = sorted(answer.scores, key=lambda name: (-answer.scores[name], name))[:MOST_SCORES]
    assert list(decision.ranking) == ranked
    assert {name: parts["total"] for name, parts in decision.scores.items()} == {n: answer.scores[n] for n in ranked}
    given: list[list[object]] = [[] for _ in answer.shares]
    for number, uses in decision.grant:
        for position, container in enumerate(uses):
            given[position] += [(vendors[number], use) for use in container]
    assert given == [sorted(share, key=lambda s: vendors.index(s[0])) for share in answer.shares]
    decision.record()
