"""Server accounts: the policies that keep the extender's and the scheduler's accounts to the metadata they write."""

from tonnage.kube.cel import listed
from tonnage.policies.documents import Document, binding, policy, rule, validation
from tonnage.policies.expressions import (
    ANNOTATIONS,
    LABELS,
    is_one_of,
    metadata_variables,
    only_changes,
    unchanged,
)
from tonnage.policies.keys import NODE, POD, POD_GROUP, MetadataKey, Writer, written_by
from tonnage.policies.options import PolicyOptions
from tonnage.policies.reservedkeys import GROUP_APIS

PODS, STATUS, BINDINGS = "tonnage-server-pods", "tonnage-server-pod-status", "tonnage-server-bindings"
NODES, GROUPS = "tonnage-server-nodes", "tonnage-server-podgroups"
_OWNERSHIP = ("metadata.finalizers", "metadata.ownerReferences")
_STATUS = (
    "phase",
    "message",
    "reason",
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "startTime",
    "qosClass",
    "resize",
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
    "resourceClaimStatuses",
)
"""The fields of a pod's status that are the kubelet's and other controllers'."""


def server_accounts(options: PolicyOptions) -> list[Document]:
    """The policies about pods, their status and Bindings, about nodes and about PodGroups."""
    return [
        *_metadata(PODS, POD, rule([""], ["pods"], "UPDATE"), options),
        *_status(options),
        *_bindings(options),
        *_metadata(NODES, NODE, rule([""], ["nodes"], "UPDATE"), options),
        *_metadata(GROUPS, POD_GROUP, rule(GROUP_APIS, ["podgroups"], "UPDATE"), options),
    ]


def _metadata(name: str, kind: str, matched: Document, options: PolicyOptions) -> list[Document]:
    """A policy by which the servers change the metadata that they write, and nothing else."""
    validations = own_metadata("Tonnage's servers", Writer.SCHEDULER, kind, options.keys)
    return _restricted(name, matched, validations, options, metadata_variables(ANNOTATIONS, LABELS))


def own_metadata(who: str, writer: Writer, kind: str, keys: tuple[MetadataKey, ...]) -> list[Document]:
    """The validations by which a party changes the metadata that it writes, and nothing else of an object."""
    validations = [
        validation(only_changes(field, own), f"{who} change only these {field} of a {kind}: {', '.join(own) or 'none'}")
        for field, own in ((field, written_by(writer, keys, kind, field == LABELS)) for field in (ANNOTATIONS, LABELS))
    ]
    nothing_else = validation(unchanged("spec", *_OWNERSHIP), f"{who} change no specification or ownership of a {kind}")
    return [*validations, nothing_else]


def _status(options: PolicyOptions) -> list[Document]:
    fields = (*(f"status.{field}" for field in _STATUS), "metadata.annotations", "metadata.labels", *_OWNERSHIP)
    message = "Tonnage's servers change only conditions and nominatedNodeName of a pod's status"
    matched = rule([""], ["pods/status"], "UPDATE")
    return _restricted(STATUS, matched, [validation(unchanged(*fields), message)], options)


def _bindings(options: PolicyOptions) -> list[Document]:
    keys = written_by(Writer.BINDING, options.keys, POD)
    expression = f"object.metadata.?annotations.orValue({{}}).all(key, {is_one_of('key', keys)})"
    message = "Tonnage's servers write only annotations about devices with a Binding"
    labels = validation(
        "object.metadata.?labels.orValue({}).size() == 0", "Tonnage's servers write no labels with a Binding"
    )
    matched = rule([""], ["pods/binding", "bindings"], "CREATE")
    return _restricted(BINDINGS, matched, [validation(expression, message), labels], options)


def _restricted(
    name: str,
    matched: Document,
    validations: list[Document],
    options: PolicyOptions,
    variables: list[Document] | None = None,
) -> list[Document]:
    servers = {"name": "servers", "expression": f"request.userInfo.username in {listed(options.servers)}"}
    made = policy(name, [matched], validations, variables=variables or [], conditions=[servers])
    return [made, binding(name, options.enforce)]
