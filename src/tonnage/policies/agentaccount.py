"""Agent account: the policies that keep each agent to its own node, its pods, and the metadata that it writes.

All agents have one service account, but the API server knows from the token on which node a pod runs. So what somebody
takes from a broken node is good for that node alone.
"""

from tonnage.kube.cel import quoted
from tonnage.policies.accounts import own_metadata
from tonnage.policies.documents import Document, binding, policy, rule, validation
from tonnage.policies.expressions import ANNOTATIONS, LABELS, metadata_variables
from tonnage.policies.keys import NODE, POD, Writer, registry
from tonnage.policies.options import PolicyOptions

PODS, NODES = "tonnage-agent-pods", "tonnage-agent-nodes"
_WHO = "Tonnage's agents"
_NODE_OF_TOKEN = "request.userInfo.?extra[?'authentication.kubernetes.io/node-name'][?0].orValue('')"


def agent_account(options: PolicyOptions) -> list[Document]:
    """The policies about pods and about nodes."""
    return [
        *_policy(PODS, POD, "pods", "object.spec.?nodeName.orValue('')", options),
        *_policy(NODES, NODE, "nodes", "object.metadata.name", options),
    ]


def _policy(name: str, kind: str, resource: str, place: str, options: PolicyOptions) -> list[Document]:
    at_home = validation(
        f"variables.node != '' && {place} == variables.node",
        f"{_WHO} change a {kind} only on the node that they run on",
    )
    keys = registry(vendor for vendor in options.vendors if vendor.is_served_by_agent)
    agents = {"name": "agents", "expression": f"request.userInfo.username == {quoted(options.agent_user)}"}
    made = policy(
        name,
        [rule([""], [resource], "UPDATE")],
        [at_home, *own_metadata(_WHO, Writer.PLUGIN, kind, keys)],
        variables=[{"name": "node", "expression": _NODE_OF_TOKEN}, *metadata_variables(ANNOTATIONS, LABELS)],
        conditions=[agents],
    )
    return [made, binding(name, options.enforce)]
