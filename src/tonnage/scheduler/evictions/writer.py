"""EvictionWriter: the writes for an eviction plan, nominated nodes and Evictions.

The Eviction API respects PodDisruptionBudgets, gives the pod its own grace period and sets its DisruptionTarget
condition. The pod's UID is a precondition, so that a later pod of the same name is never evicted.
"""

from collections.abc import Sequence

from tonnage.binder.binding import CONFLICT, NOT_FOUND, pod_path
from tonnage.cluster.task import Task
from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.leaderelection.fence import Fence, always
from tonnage.kube.paths import api_path
from tonnage.model.wire import WireError, decode
from tonnage.scheduler.evictions.budgets import BudgetList, exceeded
from tonnage.scheduler.evictions.plans import Victim

_WRITE_SECONDS = 10.0
_OVERLOADED, _INTERNAL = 429, 500


class EvictionError(Exception):
    """Why a write failed."""

    def __init__(
        self, message: str, *, lasting: bool = False, known: bool = True, refused: Sequence[Victim] = ()
    ) -> None:
        super().__init__(message)
        self.lasting = lasting
        """Whether it makes no sense to repeat the write."""
        self.known = known
        """Whether it is certain that nothing was written."""
        self.refused = refused
        """Victims that may not be evicted now."""


class EvictionWriter:
    """Writes to pods, as long as the fence allows it."""

    def __init__(self, client: Client, fence: Fence = always) -> None:
        self._client = client
        self._fence = fence

    async def evict(self, victim: Victim) -> bool:
        """Evict a pod; False if it was gone already. EvictionError if it stays or the outcome is unknown."""
        task = victim.task
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": task.name, "namespace": task.namespace},
            "deleteOptions": {"preconditions": {"uid": task.uid}},
        }
        path = pod_path(task.namespace, task.name, "eviction")
        try:
            await self._client.request("POST", path, body=body, timeout=self._seconds())
            return True
        except StatusError as error:
            if error.status in (NOT_FOUND, CONFLICT):
                return False
            known = error.is_definite or error.status == _INTERNAL
            passes = error.status in (_OVERLOADED, _INTERNAL) or not known
            message = f"{task.key} cannot be evicted: {error.message or error}"
            raise EvictionError(message, lasting=not passes, known=known, refused=[victim]) from error
        except KubeError as error:
            raise EvictionError(f"whether {task.key} is evicted is not known: {error}", known=False) from error

    async def check_budgets(self, victims: Sequence[Victim]) -> None:
        """EvictionError if budgets do not allow to evict all of them."""
        namespaces: dict[str, list[Victim]] = {}
        for victim in victims:
            namespaces.setdefault(victim.task.namespace, []).append(victim)
        for namespace, going in namespaces.items():
            path = api_path("policy/v1", "namespaces", namespace, "poddisruptionbudgets")
            try:
                answer = decode(await self._client.get(path, timeout=10), BudgetList)
            except (KubeError, WireError) as error:
                raise EvictionError(f"the PodDisruptionBudgets of {namespace} cannot be read: {error}") from error
            why, refused = exceeded(answer.items, going)
            if why:
                raise EvictionError(why, refused=refused)

    async def nominate(self, task: Task, node: str) -> None:
        """Write a pod's nominated node, or clear it if `node` is empty; EvictionError if that fails."""
        body = {"metadata": {"uid": task.uid}, "status": {"nominatedNodeName": node or None}}
        path = pod_path(task.namespace, task.name, "status")
        try:
            await self._client.request("PATCH", path, body=body, type_=MERGE_PATCH, timeout=self._seconds())
        except StatusError as error:
            lasting = error.is_definite and error.status != _OVERLOADED
            raise EvictionError(f"{task.key} cannot be given a nominated node: {error}", lasting=lasting) from error
        except KubeError as error:
            raise EvictionError(f"{task.key} cannot be given a nominated node: {error}") from error

    def _seconds(self) -> float:
        """How long a write may take; EvictionError if it must not be begun."""
        left, least = self._fence()
        if left < least:
            raise EvictionError("nothing is written: this replica leads no longer", lasting=True)
        return min(left, _WRITE_SECONDS)
