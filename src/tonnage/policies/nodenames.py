"""Node names: the policy by which only writers create pods with devices on a node of their own choice.

The kubelet hands such a pod devices without any scheduler, and HAMi's device plugin may take it for the pod that a
scheduler is just handing its cards to.
"""

from tonnage.extender.webhook.admission import device_resources
from tonnage.kube.cel import listed, names_resource
from tonnage.policies.documents import Document, binding, policy, rule, validation
from tonnage.policies.options import PolicyOptions
from tonnage.policies.writers import ADVICE, IS_WRITER, parameter

POLICY = "tonnage-pod-node-names"
_NAMES_NODE = "object.spec.?nodeName.orValue('') != ''"
# A kubelet shows the API server the static pods of its node, and may create no others.
_IS_KUBELET = "'system:nodes' in request.userInfo.?groups.orValue([])"


def node_names(options: PolicyOptions) -> list[Document]:
    """The policy about new pods; a node cannot be named later but by a Binding."""
    conditions = [
        {"name": "names-a-node", "expression": _NAMES_NODE},
        {"name": "requests-devices", "expression": _requests_devices(options)},
    ]
    message = f"only schedulers may create pods with devices on a node; leave out spec.nodeName, or {ADVICE}"
    test = validation(f"variables.isWriter || {_IS_KUBELET}", message)
    matched = rule([""], ["pods"], "CREATE")
    made = policy(POLICY, [matched], [test], variables=[IS_WRITER], conditions=conditions, parameters=True)
    return [made, binding(POLICY, options.enforce, parameter=parameter(options))]


def _requests_devices(options: PolicyOptions) -> str:
    """Whether a pod requests devices, by resources or by annotations that ask for a share of a card."""
    by_resource = names_resource(sorted(device_resources(options.vendors)))
    sharing = sorted({key for vendor in options.vendors for key in vendor.sharing_annotations})
    if not sharing:
        return by_resource
    return f"{by_resource} ||\n{listed(sharing)}.exists(key, key in object.metadata.?annotations.orValue({{}}))"
