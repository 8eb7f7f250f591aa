"""HAMi's chart values as ours: what means the same is carried over, and every other key is named with a reason."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from tonnage.config.deviceconfig import load_devices
from tonnage.config.notes import ConfigError, Note, advice


class LeftOutKey(NamedTuple):
    """A key that is not carried over, and why."""

    key: str
    reason: str


class TranslatedValues(NamedTuple):
    """Values of our chart, and what of HAMi's is not in them."""

    values: dict[str, Any]
    left_out: list[LeftOutKey]


_SAME: Mapping[str, str] = {
    "schedulerName": "extender.schedulerName",
    "legacyMetrics": "extender.legacyMetrics",
    "global.imagePullSecrets": "image.pullSecrets",
    "prometheus.enabled": "metrics.serviceMonitor",
    "scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy": "extender.nodePolicy",
    "scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy": "extender.gpuPolicy",
    "scheduler.forceOverwriteDefaultScheduler": "extender.forceOverwriteDefaultScheduler",
    "scheduler.replicas": "extender.replicas",
    "scheduler.extender.resources": "extender.resources",
    "scheduler.kubeScheduler.resources": "extender.kubeScheduler.resources",
    "scheduler.nodeSelector": "extender.nodeSelector",
    "scheduler.tolerations": "extender.tolerations",
    "scheduler.admissionWebhook.enabled": "webhook.enabled",
    "scheduler.admissionWebhook.failurePolicy": "webhook.failurePolicy",
    "scheduler.admissionWebhook.whitelistNamespaces": "webhook.exemptNamespaces",
    "resourceName": "devices.nvidia.resourceCountName",
    "resourceMem": "devices.nvidia.resourceMemoryName",
    "resourceMemPercentage": "devices.nvidia.resourceMemoryPercentageName",
    "resourceCores": "devices.nvidia.resourceCoreName",
    "resourcePriority": "devices.nvidia.resourcePriorityName",
    "mluResourceName": "devices.cambricon.resourceCountName",
    "mluResourceMem": "devices.cambricon.resourceMemoryName",
    "mluResourceCores": "devices.cambricon.resourceCoreName",
    "dcuResourceName": "devices.hygon.resourceCountName",
    "dcuResourceMem": "devices.hygon.resourceMemoryName",
    "dcuResourceCores": "devices.hygon.resourceCoreName",
    "hcuResourceName": "devices.hygon.resourceCountName",
    "hcuResourceMem": "devices.hygon.resourceMemoryName",
    "hcuResourceCores": "devices.hygon.resourceCoreName",
    "metaxResourceName": "devices.metax.resourceVCountName",
    "metaxResourceCore": "devices.metax.resourceVCoreName",
    "metaxResourceMem": "devices.metax.resourceVMemoryName",
    "enflameResourceNameDRSGCU": "devices.enflame.resourceNameDRSGCU",
    "enflameResourceNameGCUMemory": "devices.enflame.resourceNameGCUMemory",
    "enflameResourceNameGCUCore": "devices.enflame.resourceNameGCUCore",
    "kunlunResourceName": "devices.kunlun.resourceCountName",
    "kunlunResourceVCountName": "devices.kunlun.resourceVCountName",
    "kunlunResourceVMemoryName": "devices.kunlun.resourceVMemoryName",
    "vastaiResourceName": "devices.vastai.resourceCountName",
    "birenResourceName": "devices.biren.resourceCountName",
}
"""Keys of HAMi's chart, and ours of the same meaning and form."""
_FLAGS: Mapping[str, str] = {
    "scheduler.kubeQPS": "--kube-qps",
    "scheduler.kubeBurst": "--kube-burst",
    "scheduler.nodeLockRetryTimeout": "--node-lock-retry-timeout",
}
"""Keys that are a flag of the extender, as with HAMi."""
_DEVICE_PLUGIN = "HAMi's device plugin stays as it is, in HAMi's release"
_OWN_IMAGE = "the image is Tonnage's: image.repository, image.tag and image.digest"
_REASONS: Mapping[str, str] = {
    "devicePlugin": _DEVICE_PLUGIN,
    "mockDevicePlugin": _DEVICE_PLUGIN,
    "devices.ascend": "what Ascend's device plugin needs stays in HAMi's release; cards are under devices.vnpus",
    "devices": "kube-scheduler's list of resources is made from the section devices",
    "global.gpuHookPath": _DEVICE_PLUGIN,
    "global.managedNodeSelector": _DEVICE_PLUGIN,
    "global.managedNodeSelectorEnable": _DEVICE_PLUGIN,
    "global.imageRegistry": _OWN_IMAGE,
    "global.imageTag": _OWN_IMAGE,
    "global": "objects have the chart's own labels",
    "nameOverride": "objects have the chart's names",
    "fullnameOverride": "objects have the chart's names",
    "namespaceOverride": "objects lie in the release's namespace",
    "platform": _DEVICE_PLUGIN,
    "openshift": _DEVICE_PLUGIN,
    "selinux": _DEVICE_PLUGIN,
    "podSecurityPolicy": "Kubernetes has none any more",
    "metaxsGPUTopologyAware": "nodes are not scored by the links of sGPUs yet",
    "scheduler.nodeName": "kube-scheduler places the pods; use extender.nodeSelector",
    "scheduler.nodeLabelSelector": "all nodes are looked at",
    "scheduler.metricsBindAddress": "metrics have the chart's port",
    "scheduler.kubeTimeout": "requests have time-outs of their own",
    "scheduler.extenderHTTPTimeout": "the chart sets the time-out of the extender",
    "scheduler.livenessProbe": "the probe is always there",
    "scheduler.leaderElect": "replicas always agree by a Lease",
    "scheduler.podDisruptionBudget": "the chart makes one for more than one replica",
    "scheduler.kubeScheduler.enabled": "the chart always runs kube-scheduler beside the extender",
    "scheduler.kubeScheduler.extraArgs": "the chart writes kube-scheduler's command line",
    "scheduler.kubeScheduler.extraNewArgs": "the chart writes kube-scheduler's command line",
    "scheduler.kubeScheduler.image": "give the whole name, tag included, as extender.kubeScheduler.image",
    "scheduler.extender.image": _OWN_IMAGE,
    "scheduler.extender.extraArgs": "`tonnage migrate check` says which have an effect; those go to extender.extraArgs",
    "scheduler.nodeLockExpire": "a lock is taken over as soon as its pod is done or gone",
    "scheduler.podAnnotations": "pods have no further annotations",
    "scheduler.serviceAccountName": "the chart makes a service account with the rights that are needed",
    "scheduler.serviceAccount": "the chart makes a service account with the rights that are needed",
    "scheduler.admissionWebhook": "the API server calls the chart's Service, about pods that ask for devices",
    "scheduler.patch": "certificates need no job: see the section certificates",
    "scheduler.service": "the chart makes a Service of its own",
    "scheduler.networkPolicy": "metrics.networkPolicy restricts who may scrape",
    "scheduler": "our chart has nothing of that meaning",
}
"""Why other keys are not carried over; the longest that a key begins with counts."""
_OVERWRITE_ENV, _CERT_MANAGER, _DEVICE_CONFIG = (
    "scheduler.overwriteEnv",
    "scheduler.certManager.enabled",
    "device-config.content",
)


def read_values(text: str, source: str) -> dict[str, Any]:
    """A values file; ConfigError if it is none."""
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(source, [Note(None, f"this is no YAML: {' '.join(str(error).split())}")], []) from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError(source, [Note(None, "expected a mapping of values, as in HAMi's values.yaml")], [])
    return found


def translated(given: Mapping[str, Any]) -> TranslatedValues:
    """Our values for HAMi's; keys without a value are left out silently."""
    made: dict[str, Any] = {}
    left_out: list[LeftOutKey] = []
    for key, value in _leaves(given):
        reason = _carried(key, value, made)
        if reason:
            left_out.append(LeftOutKey(key, reason))
    return TranslatedValues(made, left_out)


def _carried(key: str, value: Any, made: dict[str, Any]) -> str:
    """Put a value under our key; says why not if it has no place."""
    special: Mapping[str, Callable[[Any, dict[str, Any]], str]] = {
        _OVERWRITE_ENV: _overwrite_env,
        _CERT_MANAGER: _certificates,
        _DEVICE_CONFIG: _devices,
    }
    if key in _SAME:
        _put(made, _SAME[key], value)
    elif key in _FLAGS:
        made.setdefault("extender", {}).setdefault("extraArgs", []).append(f"{_FLAGS[key]}={value}")
    elif key in special:
        return special[key](value, made)
    else:
        return _reason(key)
    return ""


def _reason(key: str) -> str:
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        if (reason := _REASONS.get(".".join(parts[:length]))) is not None:
            return reason
    known = [*_SAME, *_FLAGS, *_REASONS, _OVERWRITE_ENV, _CERT_MANAGER, _DEVICE_CONFIG]
    return f"HAMi's chart has no such key, as far as is known{advice(key, known)}"


def _overwrite_env(value: Any, made: dict[str, Any]) -> str:
    _put(made, "devices.nvidia.overwriteEnv", str(value).lower() == "true")
    return ""


def _certificates(value: Any, made: dict[str, Any]) -> str:
    if value is True:
        _put(made, "certificates.mode", "cert-manager")
    return ""


def _devices(value: Any, made: dict[str, Any]) -> str:
    """HAMi's device configuration is ours; the text becomes the section."""
    try:
        load_devices(str(value), _DEVICE_CONFIG)
    except ConfigError as error:
        return f"it is not valid: {error}"
    for section, content in (yaml.safe_load(str(value)) or {}).items():
        _put(made, f"devices.{section}", content)
    return ""


def _put(made: dict[str, Any], path: str, value: Any) -> None:
    *folders, last = path.split(".")
    place = made
    for folder in folders:
        place = place.setdefault(folder, {})
    if isinstance(value, dict) and isinstance(place.get(last), dict):
        value = {**value, **place[last]}
    place[last] = value


def _leaves(given: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Keys with a value, as paths; a mapping that is carried over as a whole is one."""
    for name, value in given.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key not in _SAME:
            yield from _leaves(value, f"{key}.")
        elif value not in (None, "", [], {}):
            yield key, value


def as_yaml(found: TranslatedValues) -> str:
    """A values file, with a comment for each key that has no place in it."""
    lines = [f"# {one.key}: {' '.join(one.reason.split())}" for one in found.left_out]
    head = ["# Not carried over from HAMi's values:", *lines, ""] if lines else []
    body = yaml.safe_dump(found.values, sort_keys=False, allow_unicode=True) if found.values else "{}\n"
    return "\n".join([*head, body])
