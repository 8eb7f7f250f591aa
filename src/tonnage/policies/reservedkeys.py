"""Reserved keys: the policies by which only schedulers and device plugins write what devices pods have."""

from tonnage.model.kinds import KINDS, KindRole
from tonnage.policies.documents import Document, binding, policy, rule, validation
from tonnage.policies.expressions import (
    ANNOTATIONS,
    LABELS,
    METADATA_CHANGES,
    MOST_KEYS,
    changed,
    few,
    metadata_variables,
)
from tonnage.policies.keys import POD, POD_GROUP, reserved
from tonnage.policies.options import PolicyOptions
from tonnage.policies.writers import ADVICE, IS_WRITER, parameter

POD_POLICY, GROUP_POLICY = "tonnage-reserved-pod-keys", "tonnage-reserved-podgroup-keys"
GROUP_APIS = tuple(kind.api_version.partition("/")[0] for kind in KINDS if kind.role is KindRole.POD_GROUP)
_SENTENCE = "only schedulers and device plugins may write"


def reserved_keys(options: PolicyOptions) -> list[Document]:
    """The policies about pods and about PodGroups."""
    # A Binding's annotations become the pod's. `bindings` is the older way to the same.
    pods = ["pods", "pods/status", "pods/binding", "pods/ephemeralcontainers", "pods/resize", "bindings"]
    rules = {
        POD_POLICY: (POD, rule([""], pods, "CREATE", "UPDATE")),
        GROUP_POLICY: (POD_GROUP, rule(GROUP_APIS, ["podgroups", "podgroups/status"], "CREATE", "UPDATE")),
    }
    made = []
    for name, (kind, matched) in rules.items():
        made.append(_policy(name, kind, matched, options))
        made.append(binding(name, options.enforce, parameter=parameter(options)))
    return made


def _policy(name: str, kind: str, matched: Document, options: PolicyOptions) -> Document:
    keys = {field: reserved(options.keys, kind, field == LABELS) for field in (ANNOTATIONS, LABELS)}
    used = [field for field, found in keys.items() if found]
    lists = [{"name": f"changed{field.capitalize()}", "expression": changed(field, keys[field])} for field in used]
    return policy(
        name,
        [matched],
        [*(_validation(field) for field in used), *(_bounded(field) for field in keys)],
        variables=[IS_WRITER, *metadata_variables(*keys), *lists],
        conditions=[{"name": "metadata-changes", "expression": METADATA_CHANGES}],
        parameters=True,
    )


def _validation(field: str) -> Document:
    found = f"variables.changed{field.capitalize()}"
    said = f"'{_SENTENCE} the {field[:-1]} ' + {found}.join(', ') + '; leave it out, or {ADVICE}'"
    return validation(f"variables.isWriter || {found}.size() == 0", f"{_SENTENCE} some of these {field}", said)


def _bounded(field: str) -> Document:
    return validation(f"variables.isWriter || {few(field)}", f"an object has at most {MOST_KEYS} {field}")
