"""Queues of namespaces: the optional policy by which a namespace uses the queues that its labels allow.

Like Kueue's LocalQueue this gives a namespace access to a queue, but by a label, so that nothing more is to be
installed.
"""

from tonnage.cluster.jobs.group import KAI_QUEUE, VOLCANO_QUEUE
from tonnage.cluster.jobs.queue import DEFAULT_QUEUE, KAI_DEFAULT_QUEUE
from tonnage.kube.cel import listed, quoted
from tonnage.model.annotations import QUEUE
from tonnage.policies.documents import Document, binding, policy, rule, validation
from tonnage.policies.options import PolicyOptions
from tonnage.policies.reservedkeys import GROUP_APIS

LABEL = "queues.tonnage.io/"
"""The beginning of a namespace's label, which a queue's name ends; its value is `true`."""
POD_POLICY, GROUP_POLICY = "tonnage-pod-queues", "tonnage-podgroup-queues"
_IN_METADATA = (f"metadata.?annotations[?{quoted(QUEUE)}]", f"metadata.?annotations[?{quoted(VOLCANO_QUEUE)}]")
_IN_LABELS = f"metadata.?labels[?{quoted(KAI_QUEUE)}]"


def namespace_queues(options: PolicyOptions) -> list[Document]:
    """The policies about pods and about PodGroups; who names no queue gets the default one."""
    pods = policy_of(POD_POLICY, rule([""], ["pods"], "CREATE", "UPDATE"), (*_IN_METADATA, _IN_LABELS))
    matched = rule(GROUP_APIS, ["podgroups"], "CREATE", "UPDATE")
    groups = policy_of(GROUP_POLICY, matched, ("spec.?queue", _IN_LABELS))
    return [pods, binding(POD_POLICY, options.enforce), groups, binding(GROUP_POLICY, options.enforce)]


def policy_of(name: str, matched: Document, fields: tuple[str, ...]) -> Document:
    """The policy about objects that name queues in those fields."""
    variables = [
        {"name": "queues", "expression": _named("object", fields)},
        {"name": "queuesBefore", "expression": f"request.operation == 'CREATE' ? [] : {_named('oldObject', fields)}"},
        {
            "name": "foreign",
            "expression": f"""\
variables.queues.filter(queue,
  !(queue in {listed(["", DEFAULT_QUEUE, KAI_DEFAULT_QUEUE])}) && !(queue in variables.queuesBefore) &&
  namespaceObject.metadata.?labels[?({quoted(LABEL)} + queue)].orValue('') != 'true')""",
        },
    ]
    said = (
        "'namespace ' + namespaceObject.metadata.name + ' may not use the queue ' + variables.foreign.join(', ') + "
        f"'; an administrator allows it by the label {LABEL}<queue>=true of the namespace'"
    )
    test = validation("variables.foreign.size() == 0", "the namespace may not use this queue", said)
    return policy(name, [matched], [test], variables=variables)


def _named(thing: str, fields: tuple[str, ...]) -> str:
    return "[\n" + ",\n".join(f"  string({thing}.{field}.orValue(''))" for field in fields) + "\n]"
