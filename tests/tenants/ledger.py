"""The ledger of what pods really hold: what Bindings gave them and what device plugins handed out.

Annotations that a tenant may have rewritten since do not enter it. It is told of every change of a pod and says what
must not be even for a moment: an honest pod that was stopped, moved, bound over or taken for another one.
"""

import json
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.scenario import ALLOCATED, REGISTER
from tonnage.lab.api import Api

HONEST, HOSTILE = "honest", "hostile"
"""The namespaces of the two tenants."""
JOB = "job"
"""A label of honest pods that come together."""
RESOURCE = "nvidia.com/gpu"
SETTLING = 2.0
"""Seconds after which whoever binds must know of a pod that its tenant put on a node itself."""


class Share(NamedTuple):
    """What a pod has of a card."""

    uuid: str
    memory: int
    cores: int


class Card(NamedTuple):
    """What a card has."""

    slots: int
    memory: int
    cores: int


class Held:
    """One pod, as the ledger knows it."""

    def __init__(self, pod: dict[str, Any]) -> None:
        meta = pod["metadata"]
        self.namespace, self.name, self.uid = meta["namespace"], meta["name"], meta["uid"]
        self.job = meta.get("labels", {}).get(JOB, self.name)
        self.came = time.monotonic()
        self.bound = 0.0
        """When it was first seen with a node; 0 if it never was."""
        self.node = ""
        self.is_direct = bool(pod["spec"].get("nodeName"))
        """Whether its tenant chose the node and no scheduler had a say."""
        self.shares: list[Share] = []
        self.since = 0.0
        """When it got them."""
        self.handed: list[Share] = []
        """What a device plugin handed out to it."""
        self.whole = cards_wanted(pod)
        self.is_over = False
        self.is_excused = False
        """Whether it lost its turn at a device plugin to a pod that no scheduler had placed."""

    @property
    def is_honest(self) -> bool:
        return self.namespace == HONEST

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Ledger:
    """Is told by a watch and by the kubelets."""

    def __init__(self, api: Api) -> None:
        self._cards: dict[str, dict[str, Card]] = {}
        self._offers: dict[str, int] = {}
        for node in api.get("/api/v1/nodes")["items"]:
            name = node["metadata"]["name"]
            self._cards[name] = registered(node)
            self._offers[name] = int(node["status"]["allocatable"].get(RESOURCE, 0))
        self._pods: dict[str, Held] = {}
        self._by_node: defaultdict[str, dict[str, Held]] = defaultdict(dict)
        self._leaving: set[str] = set()
        self._early: list[tuple[dict[str, Any], list[Share], dict[str, Any]]] = []
        self._guard = threading.Lock()
        self.wrong: list[str] = []
        self.limits: list[str] = []
        """Harm that a pod did which no scheduler had placed: nothing but an admission policy can prevent it."""

    # -- told by the honest tenant

    def leaving(self, name: str) -> None:
        """The honest tenant is about to delete a pod of that name."""
        self._leaving.add(name)

    # -- told by the watch

    def begin(self) -> None:
        """All pods that are there will be told again."""

    def look(self, pod: dict[str, Any], is_gone: bool) -> None:
        try:
            with self._guard:
                self._look(pod, is_gone)
                self._take_early()
        except Exception:
            self.wrong.append(f"the ledger cannot take {pod['metadata'].get('name')}: {traceback.format_exc(limit=3)}")

    def _look(self, pod: dict[str, Any], is_gone: bool) -> None:
        uid = pod["metadata"]["uid"]
        if uid not in self._pods:
            self._pods[uid] = Held(pod)
        held = self._pods[uid]
        node, phase = pod["spec"].get("nodeName"), pod["status"].get("phase")
        if node and not held.node:
            self._take_node(held, node, pod)
        elif node and node != held.node:
            self.wrong.append(f"{held.key} was bound to {held.node} and then to {node}")
        is_over = is_gone or phase in ("Succeeded", "Failed")
        if held.is_honest and not held.is_over:
            self._judge_end(held, pod, is_gone, phase)
        if is_over:
            held.is_over = True
            self._by_node[held.node].pop(uid, None)

    def _take_node(self, held: Held, node: str, pod: dict[str, Any]) -> None:
        held.node, held.bound = node, time.monotonic()
        self._by_node[node][held.uid] = held
        if held.is_direct:
            return
        # The change that shows the node is the Binding itself; nobody has written to the pod since.
        # One that requests no cards is given none, whatever its annotations said before.
        given = shares_in(pod["metadata"].get("annotations", {}).get(ALLOCATED, "")) if held.whole else []
        held.shares, held.since = given, held.bound
        if self._cards.get(node) and held.whole and held.is_honest and len(held.shares) != held.whole:
            self.wrong.append(f"{held.key} asks for {held.whole} cards and was bound with {len(held.shares)}")
        self.wrong += [f"once {held.key} was bound: {one}" for one in self._overfull(node, held)]
        self._compare(held)

    def _judge_end(self, held: Held, pod: dict[str, Any], is_gone: bool, phase: str | None) -> None:
        if phase == "Failed":
            self._tell(held, f"{held.key} has failed on {held.node}: {pod['status'].get('message', '')}")
            held.is_over = True
        elif is_gone and not held.node and held.name in self._leaving:
            waited = time.monotonic() - held.came
            self._tell(held, f"{held.key} had no node after {waited:.1f} s, when its tenant gave up")
        elif (is_gone or "deletionTimestamp" in pod["metadata"]) and held.name not in self._leaving:
            reasons = ", ".join(one.get("reason", "") for one in pod["status"].get("conditions", ()))
            self._tell(held, f"{held.key} was stopped on {held.node or 'no node'} ({reasons or 'deleted'})")
            held.is_over = True

    def _tell(self, held: Held, what: str) -> None:
        (self.limits if held.is_excused else self.wrong).append(what)

    # -- told by kubelets

    def handed_out(self, pod: dict[str, Any], shares: list[Share], of: dict[str, Any]) -> None:
        """A device plugin gave these to a container of a pod, which it took for that other one or for itself."""
        with self._guard:
            self._early.append((pod, shares, of))
            self._take_early()

    def _take_early(self) -> None:
        """Take what was handed out to pods that the watch has shown by now: the kubelets have a watch of their own."""
        early, self._early = self._early, []
        for pod, shares, of in early:
            if {pod["metadata"]["uid"], of["metadata"]["uid"]} <= self._pods.keys():
                self._take(pod, shares, of)
            else:
                self._early.append((pod, shares, of))

    def _take(self, pod: dict[str, Any], shares: list[Share], of: dict[str, Any]) -> None:
        meta, taken_for = pod["metadata"], of["metadata"]
        held = self._pods[meta["uid"]]
        if meta["uid"] != taken_for["uid"]:
            owner = self._pods[taken_for["uid"]]
            said = f"{held.key} on {held.node} was taken for {owner.key} by a device plugin"
            if held.is_direct and owner.is_honest:
                owner.is_excused = True
                self.limits.append(said)
            elif held.is_honest or owner.is_honest:
                self.wrong.append(said)
            return
        if held.is_direct:
            most = [share for share in shares if share.uuid in self._cards.get(pod["spec"]["nodeName"], {})]
            held.shares, held.since = most[: held.whole], time.monotonic()
            return
        held.handed += shares
        if held.bound:
            self._compare(held)

    def _compare(self, held: Held) -> None:
        """Once a pod was bound and has been handed out its cards, they are the same."""
        if held.is_honest and {one.uuid for one in held.handed} - {one.uuid for one in held.shares}:
            self.wrong.append(f"{held.key} was given {held.shares} and handed out {held.handed}")

    # -- asked

    def waits(self) -> dict[str, float]:
        """How long each honest pod waited since its whole job was there, by name; those without a node are missing."""
        honest = [held for held in list(self._pods.values()) if held.is_honest]
        came: dict[str, float] = {}
        for held in honest:
            came[held.job] = max(came.get(held.job, 0.0), held.came)
        return {held.name: max(0.0, held.bound - came[held.job]) for held in honest if held.bound}

    def has_placed(self, names: Iterable[str]) -> bool:
        """Whether honest pods of these names all have a node, or have ended without one."""
        placed = {held.name for held in list(self._pods.values()) if held.is_honest and (held.bound or held.is_over)}
        return placed.issuperset(names)

    def unbound(self) -> list[str]:
        """Honest pods that are there and have no node."""
        waiting = [held for held in list(self._pods.values()) if held.is_honest and not held.is_over]
        return [held.name for held in waiting if not held.bound]

    def _overfull(self, node: str, newest: Held) -> list[str]:
        """What a node's pods hold beyond what it has, once one more was bound."""
        there = [
            held
            for held in self._by_node[node].values()
            if not held.is_direct or (held.since and held.since < newest.bound - SETTLING)
        ]
        if not (cards := self._cards.get(node, {})):
            counted = sum(held.whole for held in there)
            most = self._offers.get(node, 0)
            return [f"{node}: {counted} of {most} {RESOURCE} in use"] if newest.whole and counted > most else []
        used: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for held in there:
            for share in held.shares:
                for place, amount in enumerate((1, share.memory, share.cores)):
                    used[share.uuid][place] += amount
        wrong = [f"{share.uuid} is no card of {node}" for share in newest.shares if share.uuid not in cards]
        for uuid in {share.uuid for share in newest.shares} & cards.keys():
            for kind, taken, most in zip(Card._fields, used[uuid], cards[uuid], strict=True):
                if taken > most:
                    wrong.append(f"{node}: {uuid} has {taken} of {most} {kind} in use")
        return wrong


def cards_wanted(pod: dict[str, Any]) -> int:
    """How many cards a pod's containers ask for together."""
    limits = [one.get("resources", {}).get("limits", {}) for one in pod["spec"]["containers"]]
    return sum(_whole(str(one.get(RESOURCE, "0"))) for one in limits)


def _whole(quantity: str) -> int:
    """A whole number as the API server writes it; 0 for what no node can offer."""
    text = quantity.replace("k", "000").replace("M", "000000")
    return int(text) if text.isdigit() and len(text) < 10 else 0


def shares_in(text: str) -> list[Share]:
    """What a record of cards says, by its published form; what is not in this form is left out."""
    found: list[Share] = []
    for entry in text.replace(";", ":").split(":")[:1000]:
        fields = entry.split(",")
        if len(fields) >= 4 and all(one.isascii() and one.isdigit() and len(one) < 10 for one in fields[2:4]):
            found.append(Share(fields[0], int(fields[2]), int(fields[3])))
    return found


def registered(node: dict[str, Any]) -> dict[str, Card]:
    """The cards that a node registers."""
    text = node["metadata"].get("annotations", {}).get(REGISTER, "[]")
    return {card["id"]: Card(card["count"], card["devmem"], card["devcore"]) for card in json.loads(text)}
