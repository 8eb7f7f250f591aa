"""Any pod, patched, is exactly what the vendors' rules say; and no step of the patch is idle."""

from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.extender.pods import OURS, judge, operations
from tests.extender.webhook.json_patch import apply
from tests.properties.worlds import examples
from tonnage.devices.ascend import CHIPS, Ascend
from tonnage.devices.base import AdmissionChange, AdmissionError, Vendor
from tonnage.devices.cambricon import Cambricon
from tonnage.devices.iluvatar import Iluvatar
from tonnage.devices.nvidia import Nvidia
from tonnage.model.pod import Container
from tonnage.model.quantity import nano
from tonnage.model.wire import convert


class Annotating(Nvidia):
    """A vendor that also wants an annotation, as Moore Threads' do."""

    def changes(self, container, request):
        return (*super().changes(container, request), AdmissionChange("annotations", "a.b/c~d", str(request.count)))


VENDORS: list[list[Vendor]] = [
    [Nvidia(), Cambricon(), Iluvatar("MR-V100"), *map(Ascend, CHIPS)],
    [Nvidia(overwrite_env=True, core_policy="force", runtime_class="nv"), *map(Ascend, CHIPS)],
    [Annotating(default_count=2), Iluvatar("MR-V100")],
]
NAMES = [
    "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores", "nvidia.com/priority",
    "huawei.com/Ascend910C", "huawei.com/Ascend910A", "huawei.com/Ascend910A-memory", "cambricon.com/vmlu",
    "iluvatar.ai/MR-V100-vgpu", "iluvatar.ai/MR-V100.vCore", "cpu", "a~b/c",
]  # fmt: skip
VARIABLES = ["CUDA_TASK_PRIORITY", "NVIDIA_VISIBLE_DEVICES", "SOL_CONTINER_NAME", "GPU_CORE_UTILIZATION_POLICY", "PATH"]
QUANTITIES = st.sampled_from(["0", "1", "2", 1, 2, "100", 100, "8738", "1k", "2000m"])
UNKNOWN = st.dictionaries(st.sampled_from(["image", "ports", "x~y/z"]), st.integers() | st.none() | st.text(max_size=3))


def maybe(strategy):
    """A value, a null, or no field at all."""
    return st.one_of(strategy, strategy, st.none(), st.just(...))


def fields(**strategies):
    made = st.fixed_dictionaries({name: maybe(strategy) for name, strategy in strategies.items()})
    return made.map(lambda values: {name: value for name, value in values.items() if value is not ...})


AMOUNTS = st.dictionaries(st.sampled_from(NAMES), QUANTITIES, max_size=4)
VARIABLE = st.fixed_dictionaries(
    {"name": st.sampled_from(VARIABLES)},
    optional={"value": st.sampled_from(["", "0", "1", "none"]), "valueFrom": st.just({"fieldRef": {"fieldPath": "a"}})},
)
CONTAINER = st.builds(
    lambda known, unknown: unknown | known,
    fields(
        name=st.sampled_from(["a", "b"]),
        resources=fields(limits=AMOUNTS, requests=AMOUNTS, claims=st.just([])),
        env=st.lists(VARIABLE, max_size=3),
        securityContext=fields(privileged=st.booleans(), runAsUser=st.integers()),
        restartPolicy=st.just("Always"),
    ),
    UNKNOWN,
)
SPEC = st.builds(
    lambda containers, rest, unknown: unknown | rest | {"containers": containers},
    st.lists(CONTAINER, min_size=1, max_size=3),
    fields(
        initContainers=st.lists(CONTAINER, max_size=2),
        schedulerName=st.sampled_from(["", OURS, "default-scheduler"]),
        runtimeClassName=st.sampled_from(["own", ""]),
    ),
    UNKNOWN,
)
POD = st.builds(
    lambda spec, rest: rest | {"spec": spec},
    SPEC,
    fields(metadata=fields(annotations=st.just({"a.b/c~d": "2", "k": "v"}), labels=st.just({}))),
)


def by_the_rules(pod, vendors):
    """What should become of a pod, worked out by changing a copy of it; or why it must be refused."""
    after, matched = deepcopy(pod), False
    spec = after["spec"]
    for raw in [*(spec.get("initContainers") or []), *spec["containers"]]:
        known = {
            name: raw[name]
            for name in ("name", "resources", "env", "restartPolicy", "securityContext")
            if raw.get(name) is not None
        }
        container = convert(known, Container)
        if container.securityContext and container.securityContext.privileged:
            continue
        for vendor in vendors:
            try:
                admission = vendor.admit(container)
            except AdmissionError as error:
                return str(error)
            matched = matched or admission.matched
            for change in admission.changes:
                change_in(after, raw, change)
    if matched:
        spec["schedulerName"] = OURS
    return after


def change_in(pod, container, change):
    def below(parent, name):
        if parent.get(name) is None:
            parent[name] = {}
        return parent[name]

    if change.field == "runtimeClassName":
        if pod["spec"].get("runtimeClassName") is None:
            pod["spec"]["runtimeClassName"] = change.value
    elif change.field == "annotations":
        below(below(pod, "metadata"), "annotations")[change.key] = change.value
    elif change.field == "env":
        variables = container.get("env") or []
        container["env"] = variables
        same = [place for place, variable in enumerate(variables) if variable["name"] == change.key]
        if not same:
            variables.append({"name": change.key, "value": change.value})
        elif variables[same[-1]].get("valueFrom") or variables[same[-1]].get("value", "") != change.value:
            variables[same[-1]] = {"name": change.key, "value": change.value}
    else:
        amounts = below(below(container, "resources"), change.field)
        if change.key not in amounts or nano(amounts[change.key]) != nano(change.value):
            amounts[change.key] = change.value


@settings(max_examples=examples(400))
@given(POD, st.sampled_from(VENDORS))
def test_a_patched_pod_is_what_the_rules_say(pod, vendors):
    verdict = judge(pod, vendors=vendors)
    expected = by_the_rules(pod, vendors)
    if isinstance(expected, str):
        assert (verdict.allowed, verdict.code, verdict.message) == (False, 422, expected)
        return
    assert verdict.allowed
    steps = operations(verdict)
    assert apply(pod, steps) == expected
    for left_out in range(len(steps)):
        fewer = steps[:left_out] + steps[left_out + 1 :]
        assert apply(pod, fewer) != expected, f"{steps[left_out]} changes nothing"
    assert not operations(judge(expected, vendors=vendors))


@settings(max_examples=examples(300))
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["spec", "metadata", "containers", "initContainers", "resources", "limits", "env", "name", *NAMES]
                ),
                inner,
            )
        ),
        max_leaves=30,
    ),
    st.sampled_from(VENDORS),
)
def test_any_json_at_all_gets_an_answer(anything, vendors):
    verdict = judge(anything, vendors=vendors)
    assert verdict.code in (200, 400, 403, 422)
    if not isinstance(anything, dict):
        assert verdict.code == 400
