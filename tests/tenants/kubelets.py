"""The kubelets and device plugins of all nodes, which believe what HAMi's believe.

A kubelet asks its plugin only for containers that request devices. The plugin is not told which pod it is about: it
takes the one that the node's lock names, or else the first pending one whose annotations look right, and hands out
what that pod's annotations say, whoever wrote them.
"""

import threading
import time
import traceback
from collections import defaultdict
from typing import Any

from tests.e2e.checker import amount
from tests.scenario import REGISTER
from tests.tenants.ledger import RESOURCE, Ledger, cards_wanted, shares_in
from tonnage.lab.api import ApiError, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.player import LOCK, PHASE, TO_ALLOCATE, Player

NOWHERE = "nowhere.example/never"
"""An image that cannot be pulled: its pods stay Pending."""
ASSIGNED = "hami.io/vgpu-node"
_MOST = {"cpu": 64.0, "memory": 512.0 * 2**30}
"""What a node of these tests offers."""
NVIDIA = f"hami.io/vgpu{TO_ALLOCATE}"


class AllocateError(Exception):
    """A plugin's refusal, after which the kubelet fails the pod for good."""


class Kubelets(Player):
    """Tells a ledger what is handed out."""

    def __init__(self, plane: ControlPlane, ledger: Ledger) -> None:
        self._ledger = ledger
        nodes = {node["metadata"]["name"]: node for node in plane.api.get("/api/v1/nodes")["items"]}
        self._offers = {name: node["status"].get("allocatable", {}) for name, node in nodes.items()}
        self._sharing = {name for name, node in nodes.items() if REGISTER in node["metadata"].get("annotations", {})}
        self._slots: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """Per node how many device ids each pod has."""
        self._slots_guard = threading.Lock()
        self._deleting = threading.Lock()
        self.answered: list[float] = []
        """How long plugins took to hand out what was asked of them."""
        super().__init__(plane)

    def stop(self) -> None:
        with self._deleting:
            super().stop()

    def _delete(self, path: str) -> None:
        # A pod whose grace period ends now is deleted before everything stops, or not at all.
        with self._deleting:
            super()._delete(path)

    def _look(self, event: dict[str, Any]) -> None:
        pod = event["object"]
        if event["type"] == "DELETED" and "nodeName" in pod.get("spec", {}):
            with self._slots_guard:
                self._slots[pod["spec"]["nodeName"]].pop(pod["metadata"]["uid"], None)
        super()._look(event)

    def _allocate(self, pod: dict[str, Any]) -> bool:
        started = time.monotonic()
        try:
            self._take_slots(pod)
            if cards_wanted(pod):
                self._ask_plugin(pod)
                self.answered.append(time.monotonic() - started)
            return True
        except AllocateError as error:
            return self._fail(pod, str(error))
        except Exception:
            self._ledger.wrong.append(f"a kubelet breaks: {traceback.format_exc(limit=4)}")
            return False

    def _take_slots(self, pod: dict[str, Any]) -> None:
        """Refuse what the node does not offer, as a kubelet does before it asks for devices."""
        node, asked = pod["spec"]["nodeName"], cards_wanted(pod)
        offers = self._offers.get(node)
        if offers is None:
            raise AllocateError("there is no such node")
        for container in pod["spec"]["containers"]:
            for kind, quantity in container.get("resources", {}).get("requests", {}).items():
                if kind == RESOURCE and str(asked) == "0" and quantity != "0":
                    raise AllocateError(f"OutOf{kind}")
                if kind in _MOST and _is_absurd(kind, quantity):
                    raise AllocateError(f"OutOf{kind}")
        with self._slots_guard:
            slots = self._slots[node]
            if sum(slots.values()) + asked > int(offers.get(RESOURCE, 0)):
                raise AllocateError(f"OutOf{RESOURCE}")
            slots[pod["metadata"]["uid"]] = asked

    def _ask_plugin(self, pod: dict[str, Any]) -> None:
        """One Allocate for each container that requests cards."""
        node = pod["spec"]["nodeName"]
        if node not in self._sharing:
            # NVIDIA's own plugin hands out whole cards and looks at no pod.
            return
        for container in pod["spec"]["containers"]:
            count = cards_wanted({"spec": {"containers": [container]}})
            if count:
                self._hand_out(pod, node, count)

    def _hand_out(self, pod: dict[str, Any], node: str, count: int) -> None:
        taken_for = self._find(node)
        if taken_for is None:
            raise AllocateError("UnexpectedAdmissionError: no pod is being allocated")
        notes = taken_for["metadata"].get("annotations", {})
        slots = notes.get(NVIDIA, "").split(";")
        filled = [place for place, slot in enumerate(slots) if slot.strip()]
        shares = shares_in(slots[filled[0]]) if filled else []
        answer: dict[str, Any] = {"uid": taken_for["metadata"]["uid"]}
        try:
            if len(shares) != count:
                answer["annotations"] = {PHASE: "failed"}
                raise AllocateError(f"UnexpectedAdmissionError: device number not matched: {len(shares)} of {count}")
            slots[filled[0]] = ""
            left = any(slot.strip() for slot in slots)
            answer["annotations"] = {NVIDIA: ";".join(slots)[:1000], **({} if left else {PHASE: "success"})}
            self._ledger.handed_out(pod, shares, taken_for)
        finally:
            path = f"{pods_path(taken_for['metadata']['namespace'])}/{taken_for['metadata']['name']}"
            self._insist(lambda: self._api.patch(path, {"metadata": answer}))
            if PHASE in answer["annotations"]:
                self._insist(lambda: self._release(node, taken_for["metadata"]["name"]))

    def _find(self, node: str) -> dict[str, Any] | None:
        """The pod that the plugin takes its container for."""
        lock = self._read(f"/api/v1/nodes/{node}")["metadata"].get("annotations", {}).get(LOCK, "")
        if lock.count(",") == 2:
            _, namespace, name = lock.split(",")
            try:
                return self._read(f"{pods_path(namespace)}/{name}")
            except ApiError as error:
                raise AllocateError(f"UnexpectedAdmissionError: the lock names {namespace}/{name}: {error}") from error
        listed: list[dict[str, Any]] = []
        self._insist(
            lambda: listed.extend(
                self._api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node},status.phase=Pending")["items"]
            )
        )
        for one in listed:
            notes = one["metadata"].get("annotations", {})
            is_allocating = notes.get(PHASE) in ("allocating", "success") and "hami.io/bind-time" in notes
            if is_allocating and notes.get(ASSIGNED) == node:
                return one
        return None

    def _read(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = self._api.get(path)
        return found

    def _fail(self, pod: dict[str, Any], why: str) -> bool:
        meta = pod["metadata"]
        with self._slots_guard:
            self._slots[pod["spec"]["nodeName"]].pop(meta["uid"], None)
        path = f"{pods_path(meta['namespace'])}/{meta['name']}/status"
        status = {"phase": "Failed", "reason": why.split(":")[0], "message": why[:500]}
        self._insist(lambda: self._api.patch(path, {"metadata": {"uid": meta["uid"]}, "status": status}))
        return False

    def _start(self, pod: dict[str, Any]) -> None:
        if all(container["image"] != NOWHERE for container in pod["spec"]["containers"]):
            super()._start(pod)


def _is_absurd(kind: str, quantity: str) -> bool:
    """Whether no node here offers that much CPU or memory."""
    try:
        return amount(quantity) > _MOST[kind]
    except ValueError:
        return True
