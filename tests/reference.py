"""The same rules once more, slow and plain: objects, and loops over nodes and cards.

Written from the notes on HAMi and from what the plugins state, not from the engine's arrays. The property tests compare
the engine with it, and the benchmark uses it as the straightforward formulation that keeps usage per card object.

    scheduler = ObjectScheduler(gpu_policy="binpack")
    scheduler.add_node(node)
    scheduler.add_pod(running_pod)
    answer = scheduler.place(waiting_pod)
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np

from tests.reference_objects import (
    LARGEST,
    NATIVE_REASONS,
    Answer,
    Card,
    Held,
    Host,
    Shares,
    Wish,
    peaks,
    placement,
)
from tonnage.devices._mig import choose as choose_instance
from tonnage.devices.base import DecodeError, DeviceRequest, DeviceUse, RequestError, Vendor, whole_number
from tonnage.devices.catalog import default_vendors
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.quantity import QuantityError
from tonnage.model.resources import NegativeAmountError, amount, effective_request, without_nonsense
from tonnage.model.selection import UNSCHEDULABLE, SelectionError, check, term_holds, untolerated
from tonnage.plugins.gpus.gpupolicy import read_weights

POLICIES = ("binpack", "spread", "mutex", "numa", "topology-aware")


class Obstacle(Exception):  # noqa: N818 -- not an error, but a way out of nested loops
    """Why a request does not fit on a node."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _within(host: Host, vendor: str, containers: list[list[DeviceUse]], most: int | None) -> list[list[DeviceUse]]:
    """Of the cards that a pod names as many as it may, those first that the node has; all if there is no limit."""
    order = [use for container in containers for use in container]
    order.sort(key=lambda use: host.card(vendor, use.uuid) is None)
    kept = [id(use) for use in order[:most]]
    return [[use for use in container if id(use) in kept] for container in containers]


class ObjectScheduler:
    """A cluster as objects. With `thorough` cards are picked on every node, else only where that can matter."""

    def __init__(
        self,
        node_policy: str = "binpack",
        gpu_policy: str = "spread",
        numa_order: str = "tie",
        vendors: Sequence[Vendor] | None = None,
        thorough: bool = False,
    ) -> None:
        self.vendors = {v.name: v for v in (default_vendors() if vendors is None else vendors)}
        self.counts = {v.count_resource for v in self.vendors.values()}
        self.sides = {name for v in self.vendors.values() for name in v.side_resources}
        self.node_policy = node_policy
        self.gpu_policy = gpu_policy
        self.numa_order = numa_order
        self.thorough = thorough
        self.hosts: dict[str, Host] = {}
        self.held: dict[str, Held] = {}

    # -- the cluster

    def add_node(self, node: Node) -> None:
        """Take a node in, or its change; what pods hold there is counted anew."""
        self.hosts[node.name] = host = self._read_node(node)
        for held in self.held.values():
            if held.node == node.name:
                self._count(host, held, 1)

    def remove_node(self, name: str) -> None:
        self.hosts.pop(name, None)

    def add_pod(self, pod: Pod) -> None:
        """Count what a pod holds according to its annotations; one without a node, or that is over, holds nothing."""
        self.remove_pod(pod.key)
        if pod.node is not None and not pod.is_over:
            self.hold(pod.key, self._read_held(pod))

    def remove_pod(self, key: str) -> None:
        held = self.held.pop(key, None)
        if held is not None and held.node in self.hosts:
            self._count(self.hosts[held.node], held, -1)

    def hold(self, key: str, held: Held) -> None:
        self.held[key] = held
        if held.node in self.hosts:
            self._count(self.hosts[held.node], held, 1)

    def recount(self) -> None:
        """Count everything from the pods again."""
        for host in list(self.hosts.values()):
            self.add_node(host.node)

    def _read_node(self, node: Node) -> Host:
        host = Host(node)
        stated = node.status.allocatable if node.status.allocatable is not None else node.status.capacity
        for name, quantity in (stated or {}).items():
            try:
                host.offers[name] = max(0, amount(name, quantity))
            except QuantityError:
                host.offers[name] = 0
        for vendor in self.vendors.values():
            try:
                devices = vendor.devices(node)
            except DecodeError:
                continue
            handshake = (node.metadata.annotations or {}).get(vendor.handshake_annotation, "")
            if "Deleted" in handshake and host.offers.get(vendor.count_resource, 0) <= 0:
                devices = []
            cordoned = vendor.cordoned(node) if devices else frozenset()
            for device in devices:
                if all(card.device.uuid != device.uuid for card in host.cards):
                    host.cards.append(Card(vendor.name, device))
            for card in host.cards:
                card.cordoned |= card.device.uuid in cordoned
            try:
                host.links[vendor.name] = vendor.pair_scores(node)
            except DecodeError:
                host.links[vendor.name] = {}
        return host

    def _read_held(self, pod: Pod) -> Held:
        wish = self.read(pod)
        held = Held(pod.node or "", wish.needs, wish.kinds, {}, {})
        for vendor in self.vendors.values():
            most = self._most_cards(wish, vendor)
            try:
                uses = (vendor.decode_pod(pod) or ()) if most else ()
            except DecodeError:
                uses = ()
            if any(uses):
                held.shares[vendor.name] = [list(container) for container in uses]
                held.most[vendor.name] = most
                named = min(most, sum(len(container) for container in uses))
                lasting = [r.count for at, r in wish.requests if r.vendor == vendor.name and wish.kinds[at] != "init"]
                held.unknown[vendor.name] = max(0, sum(lasting) - named)
            elif wish.needs.get(vendor.count_resource):
                held.unknown[vendor.name] = wish.needs[vendor.count_resource]
        return held

    def _most_cards(self, wish: Wish, vendor: Vendor) -> int:
        """How many cards of a vendor a pod may name: as many as it asks for, in as far as that can be read."""
        if not wish.fault:
            return sum(request.count for _, request in wish.requests if request.vendor == vendor.name)
        total = 0
        for container in [*(wish.pod.spec.initContainers or []), *wish.pod.spec.containers]:
            stated = {**(container.resources.requests or {}), **(container.resources.limits or {})}
            if vendor.count_resource in stated:
                try:
                    total += whole_number(container, vendor.count_resource) or 0
                except RequestError:
                    total += 1
            else:
                total += any(name in stated for name in vendor.side_resources)
        return total

    def _count(self, host: Host, held: Held, sign: int) -> None:
        for name, value in held.needs.items():
            host.used[name] = host.used.get(name, 0) + sign * min(value, LARGEST)
        for vendor, slots in held.unknown.items():
            host.foreign[vendor] = host.foreign.get(vendor, 0) + sign * slots
        for vendor, named in held.shares.items():
            containers = _within(host, vendor, named, held.most.get(vendor))
            for uuid, (slots, memory, cores) in peaks(held.kinds, containers).items():
                card = host.card(vendor, uuid)
                if card is None:
                    host.foreign[vendor] = host.foreign.get(vendor, 0) + sign * slots
                    continue
                card.slots += sign * slots
                card.memory += sign * memory
                card.cores += sign * cores
            for use in (use for container in containers for use in container):
                card = host.card(vendor, use.uuid)
                if card is not None and use.placement is not None:
                    (card.placements.append if sign > 0 else card.placements.remove)(use.placement)

    def read(self, pod: Pod) -> Wish:
        """Read a pod's requests once."""
        inits = pod.spec.initContainers or []
        containers = [*inits, *pod.spec.containers]
        kinds = ["sidecar" if c.is_sidecar else "init" for c in inits] + ["app"] * len(pod.spec.containers)
        wish = Wish(pod, kinds)
        text = pod.annotations.get("hami.io/gpu-scheduler-policy", self.gpu_policy)
        wish.policy = tuple(w.strip() for w in text.split(",") if w.strip() in POLICIES) or ("spread",)
        try:
            wish.needs = self._needs(pod)
            for position, container in enumerate(containers):
                for vendor in self.vendors.values():
                    request = vendor.request(container)
                    if request is not None:
                        wish.requests.append((position, request))
                        wish.uuids[vendor.name] = vendor.uuid_lists(pod.annotations)
        except (RequestError, QuantityError, NegativeAmountError):
            wish.fault, wish.requests, wish.needs = True, [], self._needs(without_nonsense(pod))
        return wish

    def _needs(self, pod: Pod) -> dict[str, int]:
        return {name: value for name, value in effective_request(pod).items() if name not in self.sides}

    # -- decisions

    def decide(self, pod: Pod | Wish) -> Answer:
        """Look at every node and take the best."""
        wish = self.read(pod) if isinstance(pod, Pod) else pod
        senseless = self._senseless(wish)
        if senseless:
            return Answer(None, [], {}, dict.fromkeys(self.hosts, senseless))
        scores: dict[str, float] = {}
        reasons: dict[str, str] = {}
        found: dict[str, Shares] = {}
        for name, host in self.hosts.items():
            try:
                self._check_resources(host, wish)
                self._check_selection(host, wish)
                for _, request in wish.requests:
                    self._check_cards(host, host.cards, wish, request)
                if self.thorough or self._is_delicate(host, wish):
                    found[name] = self._share_out(host, wish)
                scores[name] = self._score(host, wish)
            except Obstacle as obstacle:
                reasons[name] = obstacle.reason
        if not scores:
            return Answer(None, [], scores, reasons)
        best = min(scores, key=lambda name: (-scores[name], name))
        shares = found[best] if best in found else self._share_out(self.hosts[best], wish)
        return Answer(best, shares, scores, reasons)

    def place(self, pod: Pod | Wish) -> Answer:
        """Decide and hold the placement."""
        wish = self.read(pod) if isinstance(pod, Pod) else pod
        answer = self.decide(wish)
        if answer.node is not None:
            self.remove_pod(wish.pod.key)
            self.hold(wish.pod.key, placement(wish, answer.node, answer.shares))
        return answer

    def _senseless(self, wish: Wish) -> str:
        """Why no node whatever could take the pod."""
        if wish.fault:
            return "InvalidRequest"
        for name in wish.needs:
            checked = name in NATIVE_REASONS or name in self.counts
            if not checked and not any(host.offers.get(name) for host in self.hosts.values()):
                return "InsufficientExtendedResource"
        try:
            for term in required_terms(wish.pod) or []:
                for expression in (*(term.matchExpressions or ()), *(term.matchFields or ())):
                    check(expression)
                if any(e.key != "metadata.name" for e in term.matchFields or ()):
                    return "InvalidNodeAffinity"
        except SelectionError:
            return "InvalidNodeAffinity"
        weights = wish.pod.annotations.get("hami.io/device-scoring-weights")
        if weights is not None and wish.requests:
            try:
                read_weights(weights)
            except ValueError:
                return "InvalidDeviceScoringWeights"
        return ""

    def _check_resources(self, host: Host, wish: Wish) -> None:
        short = [name for name, value in wish.needs.items() if host.free(name, self.counts) < min(value, LARGEST)]
        if any(name not in NATIVE_REASONS for name in short):
            raise Obstacle("InsufficientExtendedResource")
        for name in reversed(NATIVE_REASONS):
            if name in short:
                raise Obstacle(NATIVE_REASONS[name])

    def _check_selection(self, host: Host, wish: Wish) -> None:
        spec, node = wish.pod.spec, host.node
        taints = [*(node.spec.taints or ()), *([UNSCHEDULABLE] if node.spec.unschedulable else [])]
        taint = untolerated(spec.tolerations or [], taints)
        if taint == UNSCHEDULABLE:
            raise Obstacle("NodeUnschedulable")
        if any(node.labels.get(key) != value for key, value in (spec.nodeSelector or {}).items()):
            raise Obstacle("NodeAffinityMismatch")
        terms = required_terms(wish.pod)
        if terms is not None and not any(term_holds(term, node.labels, node.name) for term in terms):
            raise Obstacle("NodeAffinityMismatch")
        if taint is not None:
            raise Obstacle("UntoleratedTaint")

    def _score(self, host: Host, wish: Wish) -> float:
        """HAMi's score in its 32-bit arithmetic, the higher the better."""
        if not wish.requests:
            return 0.0
        score = np.float32(0)
        parts = (
            (sum(c.slots for c in host.cards) + sum(host.foreign.values()), sum(c.device.count for c in host.cards)),
            (sum(c.cores for c in host.cards), sum(c.device.cores for c in host.cards)),
            (sum(c.memory for c in host.cards), sum(c.device.memory for c in host.cards)),
        )
        for used, total in parts if all(total for _, total in parts) else ():
            score += np.float32(used) / np.float32(total)
        policy = wish.pod.annotations.get("hami.io/node-scheduler-policy", self.node_policy)
        return float(np.float32(10) * score) * (-1 if policy == "spread" else 1)

    # -- cards

    def _is_delicate(self, host: Host, wish: Wish) -> bool:
        """Whether counting fitting cards does not tell if the pod fits."""
        return (
            len(wish.requests) > 1
            or any(card.device.mode == "mig" for card in host.cards)
            or any(
                r.count > 1 and (self.vendors[r.vendor].is_particular(r) or self._one_numa(wish, r))
                for _, r in wish.requests
            )
        )

    def _one_numa(self, wish: Wish, request: DeviceRequest) -> bool:
        return self.vendors[request.vendor].wants_one_numa(wish.pod.annotations)

    def _check_cards(self, host: Host, cards: list[Card], wish: Wish, request: DeviceRequest) -> list[Card]:
        """The cards that would do; there are enough of them unless MIG instances make up for it."""
        own = [card for card in cards if card.vendor == request.vendor]
        if not own:
            raise Obstacle("NodeUnregistered")
        has_mig = any(card.device.mode == "mig" for card in own)
        if len(own) < request.count and not has_mig:
            raise Obstacle("NodeInsufficientDevice")
        fitting = self._fitting(own, wish, request)
        if len(fitting) < request.count and not has_mig:
            raise Obstacle("AllocatedCardsInsufficientRequest")
        self._check_foreign(host, own, wish, request)
        return fitting

    def _check_foreign(self, host: Host, cards: list[Card], wish: Wish, request: DeviceRequest) -> None:
        """Pods that do not say which cards they hold take slots of the node, and no card of it is given out whole."""
        held = host.foreign.get(request.vendor, 0)
        if held <= 0:
            return
        whole = request.cores >= 100 or (not request.memory and request.percentage == 100)
        if whole or "mutex" in wish.policy:
            raise Obstacle("ExclusiveDeviceAllocateConflict")
        if sum(max(0, card.device.count - card.slots) for card in cards) - held < request.count:
            raise Obstacle("CardTimeSlicingExhausted")

    def _fitting(self, cards: list[Card], wish: Wish, request: DeviceRequest) -> list[Card]:
        """Cards that would do; if there are none, the objection of the card that came furthest is the reason."""
        objections = [self._objection(card, wish, request) for card in cards]
        fitting = [card for card, objection in zip(cards, objections, strict=True) if objection is None]
        if not fitting:
            raise Obstacle(max(objection for objection in objections if objection is not None)[1])
        return fitting

    def _objection(
        self, card: Card, wish: Wish, request: DeviceRequest, goes_on: bool = False
    ) -> tuple[int, str] | None:
        """The first rule that keeps a request off a card, with its place in the chain of rules.

        `goes_on` means that the request has got an instance of the card already.
        """
        device = card.device
        if not device.healthy:
            return 1, "CardNotHealth"
        if card.cordoned:
            return 2, "CardCordoned"
        kind = (card.vendor, device.type, device.mode)
        if kind not in wish.types:
            vendor = self.vendors[card.vendor]
            wish.types[kind] = vendor.accepts_type(device.type, device.mode, wish.pod.annotations)
        if not wish.types[kind]:
            return 3, "CardTypeMismatch"
        wanted, refused = wish.uuids[card.vendor]
        if (wanted is not None and device.uuid not in wanted) or device.uuid in refused:
            return 4, "CardUuidMismatch"
        if card.slots >= device.count:
            return 5, "CardTimeSlicingExhausted"
        if "mutex" in wish.policy and card.slots > 0 and not goes_on:
            return 6, "ExclusiveDeviceAllocateConflict"
        if device.memory - card.memory < request.memory_on(device.memory):
            return 7, "CardInsufficientMemory"
        cores = min(request.cores, 100)
        if cores and device.cores - card.cores < cores:
            return 8, "CardInsufficientCore"
        if cores == 100 and device.cores == 100 and card.slots > 0:
            return 9, "ExclusiveDeviceAllocateConflict"
        if not cores and device.cores and card.cores >= device.cores:
            return 10, "CardComputeUnitsExhausted"
        return None

    def _share_out(self, host: Host, wish: Wish) -> Shares:
        """Give each container its cards in turn; what an init container gets is free again for the next."""
        shares: Shares = [[] for _ in wish.kinds]
        running = [card.copy() for card in host.cards]
        current, cards = -1, running
        for position, request in wish.requests:
            if position != current:
                current = position
                cards = [card.copy() for card in running] if wish.kinds[position] == "init" else running
            for card in self._pick(host, cards, wish, request):
                use = self._instance(card, request)
                assert use is not None
                card.take(use)
                shares[position].append((request.vendor, use))
        return shares

    def _pick(self, host: Host, cards: list[Card], wish: Wish, request: DeviceRequest) -> list[Card]:
        """The cards for one request in the order in which they are given; one cut into instances may come again."""
        ordered = self._ordered(self._check_cards(host, cards, wish, request), wish, request)
        usable = [card for card in ordered if self._instance(card, request) is not None]
        has_mig = any(card.device.mode == "mig" for card in ordered)
        enough = "CardMigTopologyInfeasible" if has_mig else "AllocatedCardsInsufficientRequest"
        if len(self._served(usable, wish, request)) < request.count:
            raise Obstacle(enough)
        if request.count > 1 and self._one_numa(wish, request):
            groups: dict[int, list[Card]] = {}
            for card in usable:
                groups.setdefault(card.device.numa, []).append(card)
            roomy = [g for g in groups.values() if len(self._served(g, wish, request)) >= request.count]
            if not roomy:
                raise Obstacle("NumaNotFit")
            usable = roomy[0]
        vendor = self.vendors[request.vendor]
        positions = vendor.pick(request, [card.device for card in usable], wish.pod.annotations)
        if positions is not None:
            if not positions:
                raise Obstacle("CardSetInfeasible")
            usable = [usable[position] for position in positions]
        elif "topology-aware" in wish.policy:
            places = self._served(usable, wish, request, len(usable) * 100)
            return self._best_linked(host, places, request)
        return self._served(usable, wish, request)

    def _served(self, cards: list[Card], wish: Wish, request: DeviceRequest, most: int = 0) -> list[Card]:
        """The cards that serve the request if taken in this order, as many as it asks for or there are.

        A card that must be idle is so before the request, and may serve several instances then.
        """
        result: list[Card] = []
        for card in cards:
            trial = card.copy()
            while len(result) < (most or request.count):
                if self._objection(trial, wish, request, goes_on=trial.slots > card.slots) is not None:
                    break
                use = self._instance(trial, request)
                if use is None:
                    break
                trial.take(use)
                result.append(card)
                if card.device.mode != "mig":
                    break
        return result

    @staticmethod
    def _instance(card: Card, request: DeviceRequest) -> DeviceUse | None:
        """What a container gets of a card: what it asks for, or a MIG instance that has at least so much memory."""
        device = card.device
        memory = request.memory_on(device.memory)
        if device.mode != "mig":
            return DeviceUse(device.uuid, memory, min(request.cores, 100))
        instance = choose_instance(device.profiles, memory, card.placements)
        if instance is None:
            return None
        profile, place = instance
        left = device.memory - card.memory, device.cores - card.cores
        return DeviceUse(device.uuid, min(profile.memory, left[0]), min(profile.cores, left[1]), profile.name, place)

    def _ordered(self, cards: list[Card], wish: Wish, request: DeviceRequest) -> list[Card]:
        """HAMi sorts the cards and takes them from the end, so the last registered of equals comes first."""
        keys = self._sort_keys(wish.policy, self._one_numa(wish, request))
        weights = read_weights(wish.pod.annotations.get("hami.io/device-scoring-weights", "slot=1,core=1,memory=1"))

        def place(card: Card) -> list[Fraction | int]:
            values: list[Fraction | int] = []
            for key in keys:
                match key.removeprefix("-"):
                    case "score":
                        value: Fraction | int = card_score(card, request, weights)
                    case "numa":
                        value = card.device.numa
                    case _:
                        value = card.device.index
                values.append(-value if key.startswith("-") else value)
            return values

        return sorted(cards, key=place)[::-1]

    def _sort_keys(self, policy: tuple[str, ...], one_numa: bool) -> list[str]:
        if policy == ("mutex",):
            return ["numa"]
        if len(policy) == 1 and policy != ("numa",):
            numa_first = one_numa or self.numa_order == "first"
            if policy == ("binpack",):
                return ["-numa", "score"] if numa_first else ["score", "numa"]
            return ["numa", "-score"] if numa_first else ["-score", "numa"]
        keys = {"binpack": "score", "spread": "-score", "numa": "numa"}
        chain = [keys[word] for word in policy if word in keys] or ["-score"]
        return ["numa", *chain, "index"] if one_numa else [*chain, "index"]

    @staticmethod
    def _best_linked(host: Host, cards: list[Card], request: DeviceRequest) -> list[Card]:
        links = host.links.get(request.vendor, {})

        def strength(group: Sequence[Card]) -> int:
            pairs = [(a.device.uuid, b.device.uuid) for a, b in permutations(group, 2)]
            return sum(links.get(a, {}).get(b, 0) for a, b in pairs if a != b)

        if request.count == 1:
            return [
                min(
                    cards,
                    key=lambda card: sum(
                        links.get(card.device.uuid, {}).get(o.device.uuid, 0)
                        for o in cards
                        if o.device.uuid != card.device.uuid
                    ),
                )
            ]
        return list(max(combinations(cards, request.count), key=strength))


def card_score(card: Card, request: DeviceRequest, weights: tuple[int, int, int]) -> Fraction:
    """10 × the weighted shares in use with the request added, exactly."""
    device = card.device
    parts = (
        (weights[0], card.slots + request.count, device.count),
        (weights[1], card.memory + request.memory_on(device.memory), device.memory),
        (weights[2], card.cores + request.cores, device.cores),
    )
    if not all(total for _, _, total in parts):
        return Fraction(0)
    return sum((Fraction(10 * weight * used, total) for weight, used, total in parts), Fraction(0))


def required_terms(pod: Pod) -> list | None:  # type: ignore[type-arg]
    """The terms of the required node affinity, of which one must hold; nothing if the pod has none."""
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
    return None if required is None else required.nodeSelectorTerms or []
