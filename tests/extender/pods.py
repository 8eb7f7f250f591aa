"""Pods as the API server sends them, and what admission says about them."""

import json
from typing import Any

from tests.extender.webhook.json_patch import apply
from tonnage.devices.catalog import default_vendors
from tonnage.extender.webhook.admission import AdmissionRules, PodAdmission, Verdict
from tonnage.extender.webhook.quota import Quota
from tonnage.model.wire import encode

GPU, MEMORY, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"
OURS = "hami-scheduler"


def box(name: str = "main", limits: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A container; limits are requests too, as the API server fills them in."""
    container: dict[str, Any] = {"name": name, "image": "busybox", "resources": {}, **more}
    if limits is not None and "resources" not in more:
        container["resources"] = {"limits": dict(limits), "requests": dict(limits)}
    return container


def pod(*containers: dict[str, Any], init: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod in the namespace `team`, with fields that Tonnage does not know."""
    result: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team", "managedFields": [{"manager": "kubectl"}]},
        "spec": {"containers": list(containers), "schedulerName": "default-scheduler", "dnsPolicy": "ClusterFirst"},
    }
    if init is not None:
        result["spec"]["initContainers"] = init
    result["spec"].update(spec)
    return result


class Book(dict[tuple[str, str], tuple[int, int]]):
    """Quotas by namespace and resource: limit and use."""

    def quota(self, namespace: str, resource: str) -> Quota | None:
        found = self.get((namespace, resource))
        return Quota(*found) if found else None


def judge(
    pod: Any, *, vendors: Any = None, quotas: Any = None, namespace: str = "", scheduler: str = OURS, **rules: Any
) -> Verdict:
    admission = PodAdmission(vendors or default_vendors(), AdmissionRules(scheduler, **rules), quotas)
    return admission.judge(pod, namespace)


def operations(verdict: Verdict) -> list[dict[str, Any]]:
    """A verdict's patch as the API server reads it."""
    found: list[dict[str, Any]] = json.loads(encode(verdict.operations))
    return found


def patched(pod: Any, **how: Any) -> Any:
    """What becomes of a pod that is let pass."""
    verdict = judge(pod, **how)
    assert verdict.allowed, verdict.message
    return apply(pod, operations(verdict))
