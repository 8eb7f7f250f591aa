"""The webhook's MutatingWebhookConfiguration, which has the API server ask only about pods that admission may change.

The condition is computed from the vendors, as is the admission itself. It may match a pod that admission then leaves
alone, and never the other way round.
"""

from collections.abc import Sequence
from typing import Any

from tonnage.devices.base import Vendor
from tonnage.extender.webhook.admission import admissions_of_others, device_resources
from tonnage.kube.cel import names_resource

NAMESPACE, SERVICE = "tonnage", "tonnage-scheduler"
"""Where the chart runs the extender."""
EXEMPT_NAMESPACES = ("kube-system", NAMESPACE)
"""Namespaces whose pods are created without the webhook, because it may need them in order to run."""
TIMEOUT_SECONDS = 3
IGNORE_LABEL = "hami.io/webhook"
"""Of namespaces and pods that the webhook leaves alone, with the value `ignore`."""
_NOT_IGNORED = {"key": IGNORE_LABEL, "operator": "NotIn", "values": ["ignore"]}
_NOT_EXEMPT = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [*EXEMPT_NAMESPACES]}


def webhook_configuration(vendors: Sequence[Vendor]) -> dict[str, Any]:
    """The MutatingWebhookConfiguration for these vendors, without the certificate authority of the installation."""
    webhook = {
        "name": "vgpu.hami.io",
        "admissionReviewVersions": ["v1", "v1beta1"],
        "clientConfig": {"service": {"name": SERVICE, "namespace": NAMESPACE, "path": "/webhook", "port": 443}},
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "Never",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "namespaceSelector": {"matchExpressions": [_NOT_IGNORED, _NOT_EXEMPT]},
        "objectSelector": {"matchExpressions": [_NOT_IGNORED]},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "*"}
        ],
    }
    if conditions := match_conditions(vendors):
        webhook["matchConditions"] = conditions
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "tonnage-webhook"},
        "webhooks": [webhook],
    }


def match_conditions(vendors: Sequence[Vendor]) -> list[dict[str, str]]:
    """The condition that a container names a device resource; none if admission changes other containers too."""
    if any(admission.changes for admission in admissions_of_others(vendors)):
        return []
    return [{"name": "requests-devices", "expression": names_resource(sorted(device_resources(vendors)))}]
