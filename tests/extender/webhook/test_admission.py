"""Which pods the webhook lets pass, and what it changes in them."""

from copy import deepcopy

import pytest

from tests.extender.pods import CORES, GPU, MEMORY, OURS, Book, box, judge, operations, patched, pod
from tonnage.devices.ascend import CHIPS, Ascend
from tonnage.devices.cambricon import Cambricon
from tonnage.devices.hygon import Hygon
from tonnage.devices.nvidia import Nvidia
from tonnage.extender.webhook.admission import Verdict

PRIVILEGED = {"securityContext": {"privileged": True}}
SCHEDULER = {"op": "replace", "path": "/spec/schedulerName", "value": OURS}


def gpu_pod(**spec):
    return pod(box(limits={GPU: "1", MEMORY: "4096"}), **spec)


class TestWhoSchedules:
    def test_a_pod_that_asks_for_devices_gets_our_scheduler_and_nothing_else(self):
        assert operations(judge(gpu_pod())) == [SCHEDULER]

    def test_a_pod_without_devices_is_left_as_it_is(self):
        assert judge(pod(box(limits={"cpu": "1", "memory": "1Gi"}))) == Verdict(True)
        assert judge(pod(box(limits={GPU: "0"}))) == Verdict(True)

    def test_a_pod_that_names_another_scheduler_is_untouched(self):
        verdict = judge(gpu_pod(schedulerName="volcano", nodeName="n1"), vendors=[Nvidia(overwrite_env=True)])
        assert verdict == Verdict(True, message="the pod names another scheduler: volcano")

    def test_even_nonsense_is_no_concern_of_ours_if_another_scheduler_is_named(self):
        assert judge(pod(box(limits={GPU: "1", MEMORY: "16Gi"}), schedulerName="volcano")).allowed

    @pytest.mark.parametrize("named", [None, "", "default-scheduler", OURS])
    def test_pods_with_the_default_scheduler_none_or_ours_are_ours(self, named):
        assert patched(gpu_pod(schedulerName=named))["spec"]["schedulerName"] == OURS

    def test_a_pod_without_the_field_gets_it(self):
        missing = gpu_pod()
        del missing["spec"]["schedulerName"]
        assert operations(judge(missing)) == [SCHEDULER | {"op": "add"}]

    def test_a_pod_that_names_ours_needs_no_patch(self):
        assert operations(judge(gpu_pod(schedulerName=OURS))) == []

    def test_the_default_scheduler_stays_if_so_configured(self):
        assert judge(gpu_pod(), overwrite_default_scheduler=False).operations == ()
        nameless = gpu_pod(schedulerName="")
        assert operations(judge(nameless, overwrite_default_scheduler=False)) == [SCHEDULER]

    def test_without_a_scheduler_name_pods_are_changed_but_keep_their_scheduler(self):
        bare = pod(box(limits={MEMORY: "1"}), nodeName="n1")
        assert [op["path"] for op in operations(judge(bare, scheduler=""))] == [
            "/spec/containers/0/resources/limits/nvidia.com~1gpu"
        ]

    def test_default_scheduler_may_be_our_own_name(self):
        assert judge(gpu_pod(), scheduler="default-scheduler", overwrite_default_scheduler=False) == Verdict(True)


class TestDenied:
    def test_a_pod_with_devices_and_a_node_is_denied(self):
        assert judge(gpu_pod(nodeName="n1")) == Verdict(False, 403, "pod has node assigned")

    def test_a_pod_with_a_node_but_no_devices_is_left_alone(self):
        assert judge(pod(box(), nodeName="n1")) == Verdict(True)

    @pytest.mark.parametrize("containers", [[], None])
    def test_a_pod_without_containers_is_denied(self, containers):
        assert judge(pod(containers=containers)) == Verdict(False, 403, "pod has no containers")
        assert judge({}) == Verdict(False, 403, "pod has no containers")

    @pytest.mark.parametrize(
        ("limits", "message"),
        [
            ({GPU: "1", MEMORY: "16Gi"}, "container 'main': nvidia.com/gpumem: 16Gi is not a whole number"),
            ({GPU: "1", "nvidia.com/gpumem-percentage": "101"}, "101 is not from 0 to 100"),
            ({GPU: "500m"}, "500m is not a whole number"),
            ({GPU: "lots"}, "'lots' is not a quantity"),
            ({"huawei.com/Ascend910A": "2", "huawei.com/Ascend910A-memory": "8738"}, "part of a card"),
            ({"huawei.com/Ascend910A": "1", "huawei.com/Ascend910A-memory": "40k"}, "more than a card's 32768 MiB"),
            ({"huawei.com/Ascend910C": "3"}, "3 is odd"),
            ({"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "16Gi"}, "units of 256 MiB"),
        ],
    )
    def test_what_can_never_be_scheduled_is_denied_with_the_reason(self, limits, message):
        verdict = judge(pod(box(limits=limits)))
        assert (verdict.allowed, verdict.code, verdict.operations) == (False, 422, ())
        assert message in verdict.message

    def test_nonsense_in_an_init_container_is_denied_too(self):
        assert not judge(pod(box(), init=[box("prepare", {GPU: "1", MEMORY: "16Gi"})])).allowed

    def test_quantities_of_other_resources_are_not_ours_to_judge(self):
        assert patched(pod(box(limits={GPU: "1", MEMORY: "1", "cpu": "lots"})))["spec"]["schedulerName"] == OURS


class TestPrivileged:
    def test_a_privileged_container_with_devices_is_skipped_with_a_warning(self):
        verdict = judge(pod(box(limits={GPU: "1"}, **PRIVILEGED)))
        assert (verdict.allowed, verdict.operations) == (True, ())
        assert len(verdict.warnings) == 1
        assert verdict.warnings[0].startswith("container main is privileged: Tonnage does not manage")

    def test_one_that_asks_for_nothing_is_skipped_silently(self):
        assert judge(pod(box(**PRIVILEGED)), vendors=[Nvidia(overwrite_env=True)]) == Verdict(True)

    def test_the_other_containers_of_the_pod_are_not_skipped(self):
        mixed = pod(box("root", {GPU: "1", MEMORY: "16Gi"}, **PRIVILEGED), box("work", {GPU: "1"}))
        after = patched(mixed)
        assert after["spec"]["schedulerName"] == OURS
        assert after["spec"]["containers"][0] == mixed["spec"]["containers"][0]
        assert after["spec"]["containers"][1]["resources"]["limits"][CORES] == "100"
        assert len(judge(mixed).warnings) == 1

    def test_many_get_few_warnings(self):
        many = pod(*(box(f"c{i}", {GPU: "1"}, **PRIVILEGED) for i in range(50)))
        warnings = judge(many).warnings
        assert len(warnings) == 9
        assert warnings[-1] == "42 more containers are privileged and ask for devices"
        assert all(len(warning) <= 256 for warning in warnings)

    @pytest.mark.parametrize(
        ("asked", "allowed"),
        [
            (pod(box(**PRIVILEGED)), True),
            (pod(box("side", **PRIVILEGED), box("work", {GPU: "1"})), False),
            (pod(box("work", {GPU: "1"}), init=[box("side", **PRIVILEGED)]), False),
            (pod(box("side", {GPU: "1"}, **PRIVILEGED)), False),
            (pod(box("side", {GPU: "1"}, **PRIVILEGED), schedulerName="volcano"), True),
        ],
    )
    def test_newer_versions_deny_pods_with_devices_and_privilege(self, asked, allowed):
        verdict = judge(asked, deny_privileged=True)
        assert verdict.allowed is allowed
        assert verdict.operations == ()
        assert verdict.warnings == ()
        assert allowed or (verdict.code, verdict.message) == (403, "container side is privileged")


class TestQuota:
    MLU, VMEMORY, VCORE = "cambricon.com/mlu", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore"
    NAMESPACES = Book(
        {
            ("team", MEMORY): (2000, 1000),
            ("team", CORES): (400, 200),
            ("mlu-mem", VMEMORY): (100 * 256, 0),
            ("mlu-core", VCORE): (50, 20),
            ("mlu-multi", VMEMORY): (60 * 256, 0),
            ("dcu-mem", "hygon.com/dcumem"): (1000, 0),
            ("none", MEMORY): (0, 0),
        }
    )
    VENDORS = (Nvidia(), Cambricon(count_resource=MLU), Hygon(), Ascend(CHIPS[0]))

    def fits(self, asked, namespace="team"):
        verdict = judge(asked, quotas=self.NAMESPACES, namespace=namespace, vendors=self.VENDORS)
        assert verdict.allowed or verdict.message.startswith("exceeding resource quota: ")
        assert verdict.allowed or verdict.code == 403
        return verdict.allowed

    @pytest.mark.parametrize(
        ("namespace", "limits", "fits"),
        [
            ("team", {GPU: 1, MEMORY: 100}, True),
            ("team", {GPU: 1, MEMORY: 1000}, True),
            ("team", {GPU: 1, MEMORY: 1024}, False),
            ("team", {GPU: 2, MEMORY: 1024}, False),
            ("team", {GPU: 2, MEMORY: 400}, True),
            ("team", {GPU: 2, MEMORY: 1, CORES: 100}, True),
            ("team", {GPU: 3, MEMORY: 1, CORES: 100}, False),
            ("team", {GPU: 3}, False),
            ("other", {GPU: 3, MEMORY: 100000}, True),
            ("none", {GPU: 1, MEMORY: 1}, False),
            ("team", {"huawei.com/Ascend910A": 1, "huawei.com/Ascend910A-memory": 1024}, True),
            ("mlu-mem", {MLU: 1, VMEMORY: 50}, True),
            ("mlu-mem", {MLU: 1, VMEMORY: 100}, True),
            ("mlu-mem", {MLU: 1, VMEMORY: 200}, False),
            ("mlu-core", {MLU: 1, VMEMORY: 1, VCORE: 60}, False),
            ("mlu-core", {MLU: 1, VMEMORY: 1, VCORE: 30}, True),
            ("unquotaed", {MLU: 1, VMEMORY: 10000}, True),
            ("mlu-multi", {MLU: 1, VMEMORY: 40}, True),
            ("mlu-multi", {MLU: 2, VMEMORY: 40}, False),
            ("dcu-mem", {"hygon.com/dcunum": 1, "hygon.com/dcumem": 800}, True),
            ("dcu-mem", {"hygon.com/dcunum": 1, "hygon.com/dcumem": 1200}, False),
        ],
    )
    def test_explicit_memory_and_compute_count_once_per_card(self, namespace, limits, fits):
        assert self.fits(pod(box(limits=limits)), namespace) is fits

    @pytest.mark.parametrize(
        ("init", "main", "fits"),
        [
            ([800, 800], [500], True),
            ([800, 800], [500, 600], False),
            ([1001], [1], False),
            ([("sidecar", 500), 500], [500], True),
            ([("sidecar", 500), 501], [1], False),
            ([501, ("sidecar", 500)], [500], True),
            ([("sidecar", 500)], [501], False),
        ],
    )
    def test_init_containers_count_at_their_peak(self, init, main, fits):
        def holding(name, what):
            restart = {"restartPolicy": "Always"} if isinstance(what, tuple) else {}
            memory = what[1] if isinstance(what, tuple) else what
            return box(name, {GPU: 1, MEMORY: memory, CORES: 0}, **restart)

        asked = pod(
            *(holding(f"main{i}", what) for i, what in enumerate(main)),
            init=[holding(f"init{i}", what) for i, what in enumerate(init)],
        )
        assert self.fits(asked) is fits

    def test_the_message_has_the_figures(self):
        verdict = judge(pod(box(limits={GPU: "2", MEMORY: "600"})), quotas=self.NAMESPACES)
        assert verdict.message == (
            "exceeding resource quota: nvidia.com/gpumem is limited to 2000, 1000 are used, and the pod asks for 1200"
        )

    def test_the_namespace_is_the_requests_then_the_pods_then_default(self):
        asked = pod(box(limits={GPU: "1", MEMORY: "1"}))
        assert not self.fits(asked, "none")
        del asked["metadata"]["namespace"]
        assert self.fits(asked, "")
        book = Book({("default", MEMORY): (0, 0)})
        assert not judge(asked, quotas=book).allowed

    def test_a_privileged_container_of_a_pod_that_we_schedule_counts(self):
        mixed = pod(
            box("root", {GPU: "1", MEMORY: "600", CORES: "0"}, **PRIVILEGED),
            box("work", {GPU: "1", MEMORY: "600", CORES: "0"}),
        )
        assert not self.fits(mixed)
        assert self.fits(pod(box("root", {GPU: "1", MEMORY: "6000"}, **PRIVILEGED)))


class TestChanges:
    def test_a_missing_count_and_exclusive_compute_are_added_to_existing_limits(self):
        assert operations(judge(pod(box(limits={"nvidia.com/gpumem-percentage": "100"}), schedulerName=OURS))) == [
            {"op": "add", "path": "/spec/containers/0/resources/limits/nvidia.com~1gpu", "value": "1"},
            {"op": "add", "path": "/spec/containers/0/resources/limits/nvidia.com~1gpucores", "value": "100"},
        ]

    def test_limits_are_made_where_only_requests_were_given(self):
        for limits in ({}, {"limits": None}):
            asked = box(resources={"requests": {GPU: "1"}, **limits})
            found = operations(judge(pod(asked, schedulerName=OURS)))
            op = "replace" if limits else "add"
            assert found == [
                {"op": op, "path": "/spec/containers/0/resources/limits", "value": {GPU: "1", CORES: "100"}}
            ]

    @pytest.mark.parametrize("qualifier", [MEMORY, "nvidia.com/gpumem-percentage", CORES])
    def test_a_count_that_is_only_requested_gets_its_limit_beside_limits_on_memory_or_compute(self, qualifier):
        asked = box(resources={"requests": {GPU: "2"}, "limits": {qualifier: "30"}})
        assert operations(judge(pod(asked, schedulerName=OURS))) == [
            {"op": "add", "path": "/spec/containers/0/resources/limits/nvidia.com~1gpu", "value": "2"},
        ]

    def test_init_containers_are_changed_too(self):
        after = patched(pod(box(), init=[box("prepare", {GPU: "1"})]))
        assert after["spec"]["initContainers"][0]["resources"]["limits"] == {GPU: "1", CORES: "100"}
        assert after["spec"]["schedulerName"] == OURS

    def test_memory_in_templates_replaces_limit_and_request(self):
        asked = pod(box(limits={"huawei.com/Ascend910A": "1", "huawei.com/Ascend910A-memory": "5k"}))
        resources = patched(asked)["spec"]["containers"][0]["resources"]
        assert resources["limits"] == resources["requests"]
        assert resources["limits"]["huawei.com/Ascend910A-memory"] == "8738"

    def test_a_quantity_that_means_the_same_is_not_written_again(self):
        asked = box(limits={"huawei.com/Ascend910A": "1", "huawei.com/Ascend910A-memory": 8738})
        assert operations(judge(pod(asked, schedulerName=OURS))) == []
        milli = box(limits={"huawei.com/Ascend910A": "1", "huawei.com/Ascend910A-memory": "8738000m"})
        assert operations(judge(pod(milli, schedulerName=OURS))) == []

    def test_several_iluvatar_cards_keep_limit_and_request_equal(self):
        asked = box(limits={"iluvatar.ai/MR-V100-vgpu": "2", "iluvatar.ai/MR-V100.vCore": "50"})
        resources = patched(pod(asked))["spec"]["containers"][0]["resources"]
        assert resources["limits"]["iluvatar.ai/MR-V100.vCore"] == "200"
        assert resources["limits"] == resources["requests"]

    @pytest.mark.parametrize(
        ("env", "expected"),
        [
            ({}, [{"op": "add", "path": "", "value": [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]}]),
            ({"env": None}, [{"op": "replace", "path": "", "value": [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]}]),
            ({"env": []}, [{"op": "replace", "path": "", "value": [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]}]),
            (
                {"env": [{"name": "A", "value": "b"}]},
                [{"op": "add", "path": "/-", "value": {"name": "CUDA_TASK_PRIORITY", "value": "1"}}],
            ),
            (
                {"env": [{"name": "CUDA_TASK_PRIORITY", "value": "0"}, {"name": "A"}]},
                [{"op": "replace", "path": "/0", "value": {"name": "CUDA_TASK_PRIORITY", "value": "1"}}],
            ),
            (
                {"env": [{"name": "CUDA_TASK_PRIORITY", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
                [{"op": "replace", "path": "/0", "value": {"name": "CUDA_TASK_PRIORITY", "value": "1"}}],
            ),
            (
                {"env": [{"name": "CUDA_TASK_PRIORITY", "value": "1"}, {"name": "CUDA_TASK_PRIORITY", "value": "2"}]},
                [{"op": "replace", "path": "/1", "value": {"name": "CUDA_TASK_PRIORITY", "value": "1"}}],
            ),
            ({"env": [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]}, []),
        ],
    )
    def test_variables_are_set_once(self, env, expected):
        asked = pod(box(limits={GPU: "1", MEMORY: "1", "nvidia.com/priority": "1"}, **env), schedulerName=OURS)
        full = [op | {"path": "/spec/containers/0/env" + op["path"]} for op in expected]
        assert operations(judge(asked)) == full

    def test_containers_without_devices_may_be_hidden_from_them(self):
        vendors = [Nvidia(overwrite_env=True)]
        after = patched(pod(box(), box("work", {GPU: "1"})), vendors=vendors)
        assert after["spec"]["containers"][0]["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
        assert "env" not in after["spec"]["containers"][1]

    def test_a_pod_without_devices_is_hidden_from_them_too_and_keeps_its_scheduler(self):
        after = patched(pod(box()), vendors=[Nvidia(overwrite_env=True)])
        assert after["spec"]["schedulerName"] == "default-scheduler"
        assert after["spec"]["containers"][0]["env"]

    @pytest.mark.parametrize(("given", "after"), [({}, "nvidia"), ({"runtimeClassName": None}, "nvidia")])
    def test_a_runtime_class_is_set_where_none_is(self, given, after):
        vendors = [Nvidia(runtime_class="nvidia")]
        assert patched(gpu_pod(**given), vendors=vendors)["spec"]["runtimeClassName"] == after

    @pytest.mark.parametrize("own", ["kata", ""])
    def test_the_authors_runtime_class_stays(self, own):
        vendors = [Nvidia(runtime_class="nvidia")]
        assert patched(gpu_pod(runtimeClassName=own), vendors=vendors)["spec"]["runtimeClassName"] == own

    def test_a_second_pass_changes_nothing_more(self):
        vendors = [Nvidia(overwrite_env=True, core_policy="force", runtime_class="nvidia"), *map(Ascend, CHIPS)]
        asked = pod(
            box("a", {GPU: "1", "nvidia.com/priority": "0"}), box("b", {"huawei.com/Ascend910C": "1"}), box("c")
        )
        after = patched(asked, vendors=vendors)
        assert after != asked
        assert judge(after, vendors=vendors) == Verdict(True)

    def test_the_pod_that_was_judged_is_not_changed(self):
        asked = pod(box(limits={GPU: "1"}))
        before = deepcopy(asked)
        judge(asked)
        assert asked == before
