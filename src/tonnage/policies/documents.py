"""Policy documents: ValidatingAdmissionPolicies with their bindings, as plain data."""

from collections.abc import Sequence
from typing import Any

Document = dict[str, Any]
API_VERSION = "admissionregistration.k8s.io/v1"
WATCHING, ENFORCING = ["Warn", "Audit"], ["Deny", "Audit"]
"""The actions of a binding: tell the author and the audit log, or refuse."""


def rule(groups: Sequence[str], resources: Sequence[str], *operations: str) -> Document:
    """A rule that matches resources of any version."""
    return {
        "apiGroups": list(groups),
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": list(resources),
    }


def policy(
    name: str,
    rules: Sequence[Document],
    validations: Sequence[Document],
    *,
    variables: Sequence[Document] = (),
    conditions: Sequence[Document] = (),
    parameters: bool = False,
) -> Document:
    """A policy; an expression that cannot be evaluated counts as a refusal."""
    spec: Document = {"failurePolicy": "Fail"}
    if parameters:
        spec["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
    spec["matchConstraints"] = {"resourceRules": list(rules)}
    if conditions:
        spec["matchConditions"] = list(conditions)
    if variables:
        spec["variables"] = list(variables)
    spec["validations"] = list(validations)
    return {"apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec}


def binding(
    name: str, enforce: bool, *, parameter: tuple[str, str] | None = None, except_namespaces: Sequence[str] = ()
) -> Document:
    """The binding of the policy of that name; the parameter is the ConfigMap's namespace and name."""
    spec: Document = {"policyName": name, "validationActions": ENFORCING if enforce else WATCHING}
    if parameter is not None:
        namespace, named = parameter
        # Without the ConfigMap `Deny` would refuse every pod of the cluster, even while the policy only warns.
        spec["paramRef"] = {"name": named, "namespace": namespace, "parameterNotFoundAction": "Allow"}
    if except_namespaces:
        outside = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(except_namespaces)}
        spec["matchResources"] = {"namespaceSelector": {"matchExpressions": [outside]}}
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": spec,
    }


def validation(expression: str, message: str, message_expression: str = "") -> Document:
    """A test that a request must pass, with the sentence for one that does not."""
    found: Document = {"expression": expression, "message": message, "reason": "Forbidden"}
    if message_expression:
        found["messageExpression"] = message_expression
    return found
