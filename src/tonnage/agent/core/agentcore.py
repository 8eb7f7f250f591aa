"""AgentCore: the agent's state, and what it does about each event.

Every method takes one event and returns instructions. The questions of the kubelet stay open until it is certain which
container asks; the answer needs nothing from the API server if the watch has shown the pod.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from tonnage.agent.core.asking import Asker, KubeletPods, Served, askers, is_alone, unseen
from tonnage.agent.core.cards import Card, CardHealth, preferred
from tonnage.agent.core.instructions import (
    FetchPods,
    GiveDevices,
    Instruction,
    LogNote,
    LookAtKubelet,
    LookUpPod,
    OfferDevices,
    PatchNode,
    PatchPod,
    PostEvent,
    PostNodeEvent,
    Prefer,
    Refuse,
    ReleaseLock,
)
from tonnage.agent.core.ledger import excess
from tonnage.agent.core.links import pair_scores
from tonnage.agent.core.nodepod import NodePod, node_pod
from tonnage.agent.core.watchedpod import WatchedPod
from tonnage.devices.base import InstanceIds, MigPlacement
from tonnage.devices.nvidia import Nvidia
from tonnage.model.annotations import ALLOCATING, BIND_PHASE, FAILED, LOCK, SUCCESS
from tonnage.model.meta import NOTHING

REFUSED_EVENT = "DevicesRefused"
LINKS_EVENT = "AsymmetricGPUP2PLink"
PATIENCE = 5.0
"""Seconds that a question waits for the watch before pods are fetched by name."""
LOCK_PATIENCE = 30.0
"""Seconds after which a lock is looked into that names a pod which is not on the node."""


class KubeletQuestion(msgspec.Struct):
    """An open question of the kubelet."""

    number: int
    asked: float
    count: int
    preference: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """Available ids and those that must be among the answer, if it asks for a preference."""
    ids: tuple[str, ...] = ()
    kubelet: KubeletPods | None = None
    is_fetched: bool = False


class ExpectedQuestion(msgspec.Struct, frozen=True):
    """The question that follows a preference: the kubelet asks about the container with the ids that it was told."""

    ids: frozenset[str]
    uid: str
    container: str
    told: float


class AgentCore:
    """Decides what the kubelet, the API server and the log are told."""

    def __init__(
        self,
        vendor: Nvidia,
        registration: Callable[[Sequence[Card], Callable[[str], bool]], Mapping[str, str | None]],
        *,
        labels: Mapping[str, str | None] = NOTHING,
        only_warns: bool = False,
    ) -> None:
        self._vendor = vendor
        self._registration = registration
        """The node's annotations for its cards, given which of them are well."""
        self._wanted_labels = labels
        """The node's labels about its cards; None for one that it must not have."""
        self._only_warns = only_warns
        """Whether a pod that exceeds a card is served all the same."""
        self.cards: dict[str, Card] = {}
        self.health = CardHealth()
        self.pods: dict[str, NodePod] = {}
        self.served: dict[Served, frozenset[str]] = {}
        """The ids with which containers were answered."""
        self._given: frozenset[Served] = frozenset()
        """Containers with devices in the kubelet's checkpoint when it was last read."""
        self._refused: set[str] = set()
        self._missed: set[str] = set()
        """Pods that the kubelet failed of its own accord, which were told of."""
        self._questions: dict[int, KubeletQuestion] = {}
        self._expected: ExpectedQuestion | None = None
        self._absent: set[str] = set()
        """Pods of the kubelet that the API server does not know."""
        self._node: dict[str, str] | None = None
        self._labels: Mapping[str, str] = NOTHING
        self._written: dict[str, str | None] = {}
        """Annotations and labels of the node that are on their way; no key is both."""
        self._lock_seen = ("", 0.0)
        self._lopsided: set[tuple[str, str]] = set()
        """Pairs of cards with a link in one direction that were told of."""

    # -- the kubelet asks

    def asked(self, number: int, ids: Sequence[str], now: float) -> list[Instruction]:
        """The kubelet wants to know what a container gets."""
        question = KubeletQuestion(number, now, len(ids), ids=tuple(ids))
        asker = self._expected_asker(question)
        if asker is not None:
            return self._decide(question, asker)
        self._questions[number] = question
        return [LookAtKubelet(number)]

    def _expected_asker(self, question: KubeletQuestion) -> Asker | None:
        """The container for which exactly these ids were preferred a moment ago, when nobody else could ask."""
        expected, self._expected = self._expected, None
        if expected is None or expected.ids != set(question.ids) or question.asked - expected.told > PATIENCE:
            return None
        pod = self.pods.get(expected.uid)
        if pod is None or pod.is_over or pod.uid in self._refused or (pod.uid, expected.container) in self.done:
            return None
        return next((Asker(pod, one) for one in pod.containers if one.name == expected.container), None)

    def preference_asked(
        self, number: int, available: Sequence[str], must_include: Sequence[str], size: int, now: float
    ) -> list[Instruction]:
        """The kubelet wants to know which ids are best."""
        self._expected = None
        both = (tuple(available), tuple(must_include))
        self._questions[number] = KubeletQuestion(number, now, size, preference=both)
        return [LookAtKubelet(number)]

    def hung_up(self, number: int) -> list[Instruction]:
        """The kubelet does not wait for the answer any more."""
        self._questions.pop(number, None)
        return []

    def kubelet_seen(
        self, number: int, listed: Iterable[str], entries: Mapping[Served, frozenset[str]]
    ) -> list[Instruction]:
        """What the kubelet's list and checkpoint say while it waits."""
        notes = self.checkpoint_seen(entries)
        question = self._questions.get(number)
        if question is None:
            return notes
        question.kubelet = KubeletPods(frozenset(listed), frozenset(entries))
        self._absent &= question.kubelet.listed
        return [*notes, *self._resolve(question)]

    def kubelet_silent(self, number: int, why: str) -> list[Instruction]:
        """The kubelet's list could not be had."""
        question = self._questions.pop(number, None)
        if question is None:
            return []
        return self._without(question, f"the kubelet does not say which pod asks: {why}")

    def checkpoint_seen(self, entries: Mapping[Served, frozenset[str]]) -> list[Instruction]:
        """Compare the kubelet's checkpoint with the answers that were given."""
        self._given = frozenset(entries)
        wrong = [s for s, ids in self.served.items() if s in entries and entries[s] != ids]
        for served in wrong:
            self.served[served] = entries[served]
        return [
            LogNote(
                "allocation_mismatch", f"the kubelet's checkpoint has other ids for {self._name(served)}", is_error=True
            )
            for served in wrong
        ]

    def pods_fetched(self, number: int, found: Iterable[WatchedPod], missing: Iterable[str]) -> list[Instruction]:
        """The pods that the API server has of those asked for; the others are unknown to it or could not be had."""
        instructions: list[Instruction] = []
        for pod in found:
            instructions += self.pod_seen(pod)
        self._absent.update(missing)
        question = self._questions.get(number)
        if question is not None:
            question.is_fetched = True
            instructions += self._resolve(question)
        return instructions

    def _resolve(self, question: KubeletQuestion) -> list[Instruction]:
        """GiveDevices a question if it is certain who asks."""
        kubelet = question.kubelet
        if kubelet is None:
            return []
        late = [key for key in unseen(self.pods, kubelet) if key not in self._absent]
        if late and not question.is_fetched:
            return []
        found = askers(self.pods, kubelet, self.served, question.count, self._refused)
        del self._questions[question.number]
        if len(found) == 1:
            return self._decide(question, found[0])
        if not found:
            return self._without(question, f"no pod on this node waits for {question.count} devices")
        names = ", ".join(f"{one.pod.key} ({one.container.name})" for one in found)
        return self._without(question, f"it is not certain which of these asks: {names}")

    def _without(self, question: KubeletQuestion, why: str) -> list[Instruction]:
        """GiveDevices a question about nobody."""
        if question.preference is not None:
            available, must_include = question.preference
            return [Prefer(question.number, preferred((), available, must_include, question.count))]
        return [Refuse(question.number, why), LogNote("refused", why, is_error=True)]

    def _decide(self, question: KubeletQuestion, asker: Asker) -> list[Instruction]:
        pod, container = asker
        if question.preference is not None:
            available, must_include = question.preference
            wanted = [use.uuid for use in container.uses]
            ids = preferred(wanted, available, must_include, question.count)
            if question.kubelet is not None and not self._questions and is_alone(self.pods, question.kubelet, asker):
                self._expected = ExpectedQuestion(frozenset(ids), pod.uid, container.name, question.asked)
            return [Prefer(question.number, ids)]
        fault = pod.fault or excess(pod, self.cards, self._holders())
        warned: list[Instruction] = []
        if fault and not pod.fault and self._only_warns and all(use.uuid in self.cards for use in pod.cards()):
            warned, fault = [LogNote("exceeded", f"{pod.key} {fault}", is_error=True)], ""
        if fault:
            return self._refuse(question, pod, fault)
        served = (pod.uid, container.name)
        is_repeated = served in self.served
        self.served[served] = frozenset(question.ids)
        return [*warned, GiveDevices(question.number, pod, container, is_repeated), *self._finished(pod)]

    def _refuse(self, question: KubeletQuestion, pod: NodePod, fault: str) -> list[Instruction]:
        self._refused.add(pod.uid)
        message = f"{pod.key} {fault}"
        return [
            Refuse(question.number, message),
            LogNote("refused", message, is_error=True),
            PostEvent(pod, REFUSED_EVENT, f"The pod {fault}"),
            *self._closed(pod, FAILED),
        ]

    def _holders(self) -> list[NodePod]:
        """The pods that hold devices: a container of theirs was answered or is in the checkpoint."""
        holding = {uid for uid, _ in self.served} | {uid for uid, _ in self._given}
        return [pod for pod in self.pods.values() if pod.uid in holding and not pod.is_over]

    @property
    def done(self) -> set[Served]:
        """Containers that have their devices, also those that an earlier process has answered."""
        return self.served.keys() | self._given

    def _finished(self, pod: NodePod) -> list[Instruction]:
        """Write down that a pod has all its devices, once it has."""
        return self._closed(pod, SUCCESS) if self._has_all(pod) else []

    def _has_all(self, pod: NodePod) -> bool:
        done = self.done
        return all((pod.uid, one.name) in done for one in pod.containers if one.count)

    def _is_answered(self, pod: NodePod) -> bool:
        """Whether the kubelet has nothing more to ask about a pod."""
        return pod.is_over or pod.uid in self._refused or self._has_all(pod)

    def _closed(self, pod: NodePod, phase: str) -> list[Instruction]:
        """Tell schedulers that the pod's turn is over, and free the lock if it is the pod's."""
        changes = {BIND_PHASE: phase} if pod.annotations.get(BIND_PHASE) != phase else {}
        listed = pod.annotations.get(self._vendor.to_allocate, "")
        if phase == SUCCESS and listed.strip(";"):
            changes[self._vendor.to_allocate] = ";" * max(1, listed.count(";"))
        if phase == SUCCESS:
            changes |= self._vendor.identified(pod.annotations, self._instance)
        patches: list[Instruction] = [PatchPod(pod.uid, pod.namespace, pod.name, changes)] if changes else []
        return [*patches, *self._freed(pod.key)]

    def _instance(self, uuid: str, placement: MigPlacement) -> InstanceIds | None:
        card = self.cards.get(uuid)
        found = card.instance_at(placement) if card is not None else None
        return InstanceIds(found.uuid, found.gpu, found.compute) if found is not None else None

    # -- pods

    def pod_seen(self, pod: WatchedPod) -> list[Instruction]:
        """A pod of this node as it is now."""
        seen = node_pod(pod, self._vendor)
        if not seen.uid:
            return []
        self.pods[seen.uid] = seen
        self._absent.discard(seen.key)
        return [*self._told_if_missed(seen), *self._reconsider()]

    def _told_if_missed(self, pod: NodePod) -> list[Instruction]:
        """Tell once of a pod that the kubelet failed, and not because the agent refused it, and end its turn."""
        is_told = pod.uid in self._refused or pod.uid in self._missed
        if is_told or not pod.is_rejected or pod.annotations.get(BIND_PHASE) not in (ALLOCATING, SUCCESS):
            return []
        self._missed.add(pod.uid)
        is_served = any(uid == pod.uid for uid, _ in self.done) or pod.annotations[BIND_PHASE] == SUCCESS
        when = (
            "after the agent had answered for it" if is_served else "while it could not ask the agent for its devices"
        )
        why = f"the kubelet failed {pod.key} {when}; create the pod again"
        return [LogNote("pod_missed", why, is_error=True), *self._closed(pod, FAILED)]

    def pod_gone(self, uid: str) -> list[Instruction]:
        """A pod that is on this node no more."""
        gone = self.pods.pop(uid, None)
        self._refused.discard(uid)
        self._missed.discard(uid)
        for served in [one for one in self.served if one[0] == uid]:
            del self.served[served]
        return self._freed(gone.key) if gone is not None else []

    def started(self, entries: Mapping[Served, frozenset[str]]) -> list[Instruction]:
        """Finish what an earlier process left: pods whose devices are given and whose turn was not closed."""
        instructions = self.checkpoint_seen(entries)
        for pod in self.pods.values():
            if pod.asks and not pod.is_over and pod.annotations.get(BIND_PHASE) == ALLOCATING:
                instructions += self._finished(pod)
        return instructions

    def _reconsider(self) -> list[Instruction]:
        """Look at the open questions again."""
        return [one for question in list(self._questions.values()) for one in self._resolve(question)]

    def _name(self, served: Served) -> str:
        pod = self.pods.get(served[0])
        return f"{pod.key if pod is not None else served[0]} ({served[1]})"

    # -- cards

    def cards_seen(self, cards: Sequence[Card]) -> list[Instruction]:
        """The node's cards, all of them."""
        known = {card.uuid: card for card in cards}
        if known == self.cards:
            return []
        self.cards = known
        return [OfferDevices(), *self._register(), *self._links_told()]

    def _links_told(self) -> list[Instruction]:
        """Tell once of cards that are linked in one direction only."""
        _, lopsided = pair_scores({one.uuid: one.links for one in self.cards.values() if one.links is not None})
        fresh = [pair for pair in lopsided if pair not in self._lopsided]
        self._lopsided.update(fresh)
        if not fresh:
            return []
        names = "; ".join(f"{one} and {other}" for one, other in fresh)
        message = f"Cards are linked by NVLink in one direction only and count as not linked: {names}"
        return [PostNodeEvent(LINKS_EVENT, message), LogNote("links_asymmetric", message, is_error=True)]

    def xid_seen(self, uuid: str | None, xid: int, now: float) -> list[Instruction]:
        """An error of a card, or of all of them."""
        struck = [uuid] if uuid is not None else list(self.cards)
        ill = self.health.struck([one for one in struck if one in self.cards], xid, now)
        if not ill:
            return []
        notes = [
            LogNote("card_unhealthy", f"{one} is unhealthy: {self.health.reason(one)}", is_error=True) for one in ill
        ]
        return [*notes, OfferDevices(), *self._register()]

    # -- the node

    def node_seen(
        self, annotations: Mapping[str, str], now: float, labels: Mapping[str, str] = NOTHING
    ) -> list[Instruction]:
        """The node's annotations and labels as they are."""
        self._node, self._labels = dict(annotations), labels
        for key, value in list(self._written.items()):
            if (labels if key in self._wanted_labels else annotations).get(key) == value:
                del self._written[key]
        lock = self._node.get(LOCK, "")
        if lock == self._lock_seen[0]:
            return self._register()
        self._lock_seen = (lock, now)
        # A lock is set before its pod is bound, but the watch of pods may be ahead of the node's.
        owner = next((pod for pod in self.pods.values() if pod.key == lock_owner(lock)), None)
        is_late = owner is not None and self._is_answered(owner)
        return [*self._register(), *([ReleaseLock(lock)] if is_late else [])]

    def node_patch_failed(self) -> list[Instruction]:
        """Annotations and labels could not be written; the next tick tries again."""
        self._written.clear()
        return []

    def tick(self, now: float) -> list[Instruction]:
        """Some time has passed."""
        instructions: list[Instruction] = []
        for question in list(self._questions.values()):
            if question.kubelet is not None and not question.is_fetched and now - question.asked >= PATIENCE:
                late = [key for key in unseen(self.pods, question.kubelet) if key not in self._absent]
                question.is_fetched = True
                instructions.append(FetchPods(question.number, tuple(late)))
        well = self.health.recovered(now)
        if well:
            instructions += [LogNote("card_healthy", f"{one} is healthy again") for one in well]
            instructions.append(OfferDevices())
        instructions += self._register()
        key = lock_owner(self._lock_seen[0])
        if key and now - self._lock_seen[1] >= LOCK_PATIENCE and not any(p.key == key for p in self.pods.values()):
            self._lock_seen = (self._lock_seen[0], now)
            instructions.append(LookUpPod(key))
        return instructions

    def pod_absent(self, key: str) -> list[Instruction]:
        """The pod that the node's lock names does not exist."""
        return self._freed(key)

    def _freed(self, key: str) -> list[Instruction]:
        lock = (self._node or {}).get(LOCK, "")
        return [ReleaseLock(lock)] if key and lock_owner(lock) == key else []

    def _register(self) -> list[Instruction]:
        """Write the node's annotations and labels as far as they are not there and not on their way."""
        if self._node is None or not self.cards:
            return []
        wanted = self._registration(list(self.cards.values()), self.health.is_well)
        changes = self._unwritten(wanted, self._node)
        labels = self._unwritten(self._wanted_labels, self._labels)
        if not changes and not labels:
            return []
        self._written.update(changes)
        self._written.update(labels)
        return [PatchNode(changes, labels)]

    def _unwritten(self, wanted: Mapping[str, str | None], seen: Mapping[str, str]) -> dict[str, str | None]:
        return {k: v for k, v in wanted.items() if seen.get(k) != v and self._written.get(k, "") != v}


def lock_owner(lock: str) -> str:
    """Namespace and name of the pod that a lock names; empty for a lock that names nobody."""
    parts = lock.split(",")
    return f"{parts[1]}/{parts[2]}" if len(parts) == 3 and parts[1] and parts[2] else ""
