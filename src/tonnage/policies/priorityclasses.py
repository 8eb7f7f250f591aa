"""Priority classes: the policy by which PodGroups of ordinary namespaces name none of the system's."""

from tonnage.policies.documents import Document, binding, policy, rule, validation
from tonnage.policies.options import PolicyOptions
from tonnage.policies.reservedkeys import GROUP_APIS

POLICY = "tonnage-podgroup-priority-classes"
_CLASS = "spec.?priorityClassName.orValue('')"


def priority_classes(options: PolicyOptions) -> list[Document]:
    """The policy about PodGroups of all namespaces but kube-system."""
    stays = f"request.operation == 'UPDATE' && object.{_CLASS} == oldObject.{_CLASS}"
    message = "the priority classes system-* are for PodGroups in kube-system; name one of your cluster's own"
    matched = rule(GROUP_APIS, ["podgroups"], "CREATE", "UPDATE")
    test = validation(f"!object.{_CLASS}.startsWith('system-') || {stays}", message)
    return [policy(POLICY, [matched], [test]), binding(POLICY, options.enforce, except_namespaces=["kube-system"])]
