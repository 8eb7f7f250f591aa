"""Writers: the ConfigMap that tells the policies who schedulers and device plugins are."""

from tonnage.policies.documents import Document
from tonnage.policies.options import PolicyOptions

WRITERS = "tonnage-writers"
"""The ConfigMap that names the writers."""
IS_WRITER: Document = {
    "name": "isWriter",
    "expression": """\
params.?data.?users.orValue('').split('\\n').exists(user, user.trim() == request.userInfo.username) ||
params.?data.?groups.orValue('').split('\\n').exists(group, group.trim() in request.userInfo.?groups.orValue([]))""",
}
"""The variable that says whether the request is a writer's."""
ADVICE = f"have an administrator add you to the ConfigMap {WRITERS}"


def writers(options: PolicyOptions) -> list[Document]:
    """The ConfigMap: one user or group per line."""
    metadata = {"name": WRITERS, "namespace": options.namespace}
    data = {"users": _lines((*options.servers, options.agent_user, *options.users)), "groups": _lines(options.groups)}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}]


def parameter(options: PolicyOptions) -> tuple[str, str]:
    """The namespace and the name of the ConfigMap, for the bindings of policies that use it."""
    return options.namespace, WRITERS


def _lines(names: tuple[str, ...]) -> str:
    return "".join(f"{name}\n" for name in names)
