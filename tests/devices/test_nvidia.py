"""NVIDIA: requests, admission, which cards a pod accepts, registration and records."""

import pytest

from tests.devices.objects import container, node, pod
from tonnage.devices.base import (
    NOT_MATCHED,
    PERCENTAGE_UNSET,
    Admission,
    AdmissionChange,
    AdmissionError,
    DecodeError,
    Device,
    DeviceRequest,
    DeviceUse,
    Handover,
    MigPlacement,
    RequestError,
)
from tonnage.devices.nvidia import Nvidia

GPU = "nvidia.com/gpu"
MEMORY = "nvidia.com/gpumem"
PERCENTAGE = "nvidia.com/gpumem-percentage"
CORES = "nvidia.com/gpucores"
PRIORITY = "nvidia.com/priority"
A10, A100 = "NVIDIA A10", "NVIDIA A100-SXM4-40GB"
EXCLUSIVE = AdmissionChange("limits", CORES, "100")


def asks(limits, **options):
    return Nvidia(**options).request(container(limits))


def request(count=1, memory=0, percentage=PERCENTAGE_UNSET, cores=0):
    return DeviceRequest("NVIDIA", count, memory, percentage, cores)


class TestRequest:
    @pytest.mark.parametrize(
        ("limits", "expected"),
        [
            ({GPU: 1}, request(percentage=100)),
            ({GPU: "2", MEMORY: "4096"}, request(2, 4096)),
            ({GPU: 1, MEMORY: "5k"}, request(1, 5000)),
            ({GPU: 1, PERCENTAGE: 50, CORES: 30}, request(percentage=50, cores=30)),
            ({GPU: 1, MEMORY: 1000, PERCENTAGE: 50}, request(1, 1000, 50)),
            ({GPU: 1, PERCENTAGE: 150}, request(percentage=100)),
            ({GPU: 1, PERCENTAGE: 101}, request(percentage=100)),
            ({GPU: 1, PERCENTAGE: "1E"}, request(percentage=100)),
            ({GPU: 1, PERCENTAGE: 0}, request(percentage=100)),
            ({GPU: 1, PERCENTAGE: -5, MEMORY: 7}, request(1, 7)),
            ({GPU: 1, CORES: 200}, request(percentage=100, cores=200)),
            ({MEMORY: 1024}, request(1, 1024)),
            ({PERCENTAGE: 10}, request(percentage=10)),
            ({CORES: 10}, request(percentage=100, cores=10)),
            ({GPU: 0, MEMORY: "16Gi"}, None),
            ({PRIORITY: 1}, None),
            ({}, None),
            (None, None),
        ],
    )
    def test_a_request_is_read_from_the_limits(self, limits, expected):
        assert asks(limits) == expected

    def test_requests_count_where_there_is_no_limit(self):
        asked = container({GPU: 2}, requests={GPU: 1, MEMORY: 512})
        assert Nvidia().request(asked) == request(2, 512)

    def test_defaults_fill_in_what_is_left_out(self):
        assert asks({GPU: 1}, default_memory=512, default_cores=20) == request(1, 512, cores=20)
        assert asks({GPU: 1, PERCENTAGE: 30}, default_memory=512) == request(percentage=30)
        assert asks({MEMORY: 1}, default_count=2) == request(2, 1)
        assert asks({MEMORY: 1}, default_count=0) is None

    def test_memory_counts_in_the_unit_that_is_configured(self):
        assert asks({GPU: 1, MEMORY: 1024}, memory_factor=2) == request(1, 2048)
        assert asks({GPU: 1}, memory_factor=2, default_memory=512) == request(1, 512)

    def test_resources_may_have_other_names(self):
        assert asks({"hami.io/gpu": 1, "hami.io/mem": 9}, count_resource="hami.io/gpu", memory_resource="hami.io/mem")

    @pytest.mark.parametrize(
        ("limits", "message"),
        [
            (
                {GPU: 1, MEMORY: "16Gi"},
                "container 'main': nvidia.com/gpumem: 16Gi is not a whole number from 0 to 2147483647; "
                "nvidia.com/gpumem counts in MiB, so write it without a unit",
            ),
            ({GPU: 1, MEMORY: "-1"}, "nvidia.com/gpumem: -1 is not a whole number"),
            ({GPU: 1, MEMORY: "1.5"}, "nvidia.com/gpumem: 1.5 is not a whole number"),
            ({GPU: "500m"}, "nvidia.com/gpu: 500m is not a whole number"),
            ({GPU: -1}, "nvidia.com/gpu: -1 is not a whole number"),
            ({GPU: "one"}, "'one' is not a quantity"),
            ({GPU: 1, PERCENTAGE: "0.5"}, "0.5 is not a whole number; nvidia.com/gpumem-percentage counts in percent"),
            ({GPU: 1, CORES: "-3"}, "nvidia.com/gpucores: -3 is not a whole number"),
        ],
    )
    def test_what_can_never_mean_anything_is_an_error_that_helps(self, limits, message):
        with pytest.raises(RequestError) as caught:
            asks(limits)
        assert message in str(caught.value)

    def test_memory_that_overflows_by_its_factor_is_an_error(self):
        with pytest.raises(RequestError, match="units of 2 MiB"):
            asks({GPU: 1, MEMORY: 2**30}, memory_factor=2)


class TestAdmission:
    @pytest.mark.parametrize(
        ("limits", "requests", "changes"),
        [
            ({GPU: 1, PERCENTAGE: 100}, None, (EXCLUSIVE,)),
            (None, {GPU: 1, PERCENTAGE: 100}, (AdmissionChange("limits", GPU, "1"), EXCLUSIVE)),
            ({GPU: 1, PERCENTAGE: 50}, None, ()),
            ({GPU: 1}, None, (EXCLUSIVE,)),
            ({GPU: 1, CORES: 70}, None, ()),
            (None, {GPU: 1, CORES: 55}, (AdmissionChange("limits", GPU, "1"),)),
            ({GPU: 1, MEMORY: 8192}, None, ()),
            ({MEMORY: 8192}, None, (AdmissionChange("limits", GPU, "1"),)),
            ({CORES: 10}, None, (AdmissionChange("limits", GPU, "1"),)),
            ({PERCENTAGE: 100}, None, (AdmissionChange("limits", GPU, "1"), EXCLUSIVE)),
        ],
    )
    def test_a_container_that_takes_whole_cards_gets_all_their_cores(self, limits, requests, changes):
        assert Nvidia().admit(container(limits, requests=requests)) == Admission(True, changes)

    def test_without_a_memory_resource_every_container_takes_whole_cards(self):
        assert Nvidia(memory_resource="").admit(container({GPU: 1})).changes == (EXCLUSIVE,)

    def test_exclusive_cores_follow_the_configured_names(self):
        vendor = Nvidia(
            count_resource="hami.io/gpu", percentage_resource="hami.io/part", cores_resource="hami.io/cores"
        )
        admission = vendor.admit(container({"hami.io/gpu": 1, "hami.io/part": 100}))
        assert admission.changes == (AdmissionChange("limits", "hami.io/cores", "100"),)

    def test_priority_becomes_an_environment_variable(self):
        admission = Nvidia().admit(container({GPU: 1, MEMORY: 1, PRIORITY: 1}))
        assert admission == Admission(True, (AdmissionChange("env", "CUDA_TASK_PRIORITY", "1"),))

    def test_containers_without_gpu_are_left_alone_unless_told_otherwise(self):
        assert Nvidia().admit(container({"cpu": "1"})) == NOT_MATCHED
        hidden = (AdmissionChange("env", "NVIDIA_VISIBLE_DEVICES", "none"),)
        assert Nvidia(overwrite_env=True).admit(container({"cpu": "1"})) == Admission(False, hidden)
        assert Nvidia(overwrite_env=True).admit(container({GPU: 0})) == Admission(False, hidden)
        assert Nvidia(overwrite_env=True).admit(container({GPU: 1, MEMORY: 1})) == Admission(True)

    def test_core_policy_and_runtime_class_are_added_where_configured(self):
        vendor = Nvidia(core_policy="force", runtime_class="nvidia")
        assert vendor.admit(container({GPU: 1, MEMORY: 1})).changes == (
            AdmissionChange("env", "GPU_CORE_UTILIZATION_POLICY", "force"),
            AdmissionChange("runtimeClassName", "runtimeClassName", "nvidia"),
        )

    @pytest.mark.parametrize(
        ("limits", "message"),
        [
            ({GPU: 1, PERCENTAGE: 101}, "nvidia.com/gpumem-percentage: 101 is not from 0 to 100"),
            ({GPU: 1, PERCENTAGE: -1}, "-1 is not from 0 to 100"),
            ({GPU: 1, PERCENTAGE: "0.5"}, "0.5 is not a whole number"),
            ({GPU: 1, MEMORY: "16Gi"}, "counts in MiB"),
            ({GPU: 1, PRIORITY: "high"}, "'high' is not a quantity"),
        ],
    )
    def test_what_can_never_be_scheduled_is_refused(self, limits, message):
        with pytest.raises(AdmissionError) as caught:
            Nvidia().admit(container(limits))
        assert message in str(caught.value)


class TestAcceptance:
    @pytest.mark.parametrize(
        ("annotations", "type_", "accepted"),
        [
            ({}, A100, True),
            ({"nvidia.com/use-gputype": "A10"}, A100, True),
            ({"nvidia.com/use-gputype": "a10"}, A100, True),
            ({"nvidia.com/use-gputype": "A10", "nvidia.com/nouse-gputype": "A100"}, A100, False),
            ({"nvidia.com/use-gputype": "A10", "nvidia.com/nouse-gputype": "A100"}, A10, True),
            ({"nvidia.com/use-gputype": "V100,"}, A10, False),
            ({"nvidia.com/use-gputype": "V100, A10"}, A10, True),
            ({"nvidia.com/use-gputype": " , "}, A10, False),
            ({"nvidia.com/use-gputype": "  "}, A10, True),
            ({"nvidia.com/nouse-gputype": " , "}, A10, True),
            ({"nvidia.com/nouse-gputype": "V100,"}, A10, True),
            ({"nvidia.com/nouse-gputype": "v100"}, "NVIDIA-Tesla V100-PCIE-32GB", False),
            ({"nvidia.com/nouse-gputype": ""}, A10, True),
        ],
    )
    def test_types_are_named_by_a_part_of_the_model(self, annotations, type_, accepted):
        assert Nvidia().accepts_type(type_, "hami-core", annotations) is accepted

    @pytest.mark.parametrize(
        ("modes", "mode", "accepted"),
        [
            ("mig", "mig", True),
            ("mig", "hami-core", False),
            ("mig,hami-core", "hami-core", True),
            (" ", "mps", True),
            ("mig", "", True),
        ],
    )
    def test_a_card_is_accepted_in_the_modes_that_the_pod_names(self, modes, mode, accepted):
        assert Nvidia().accepts_type(A10, mode, {"nvidia.com/vgpu-mode": modes}) is accepted

    @pytest.mark.parametrize(
        ("use", "refuse", "expected"),
        [
            (None, None, (None, frozenset())),
            ("a", None, (frozenset("a"), frozenset())),
            (" a ,b,", "b", (frozenset("ab"), frozenset("b"))),
            ("", " ,", (None, frozenset())),
            (None, "a,b", (None, frozenset("ab"))),
        ],
    )
    def test_cards_are_named_by_uuid(self, use, refuse, expected):
        named = {"nvidia.com/use-gpuuuid": use, "nvidia.com/nouse-gpuuuid": refuse}
        annotations = {key: value for key, value in named.items() if value is not None}
        assert Nvidia().uuid_lists(annotations) == expected

    @pytest.mark.parametrize(
        ("text", "wanted"), [("true", True), ("1", True), ("T", True), ("false", False), ("yes", False), ("", False)]
    )
    def test_one_numa_node_is_wanted_by_a_truth_value(self, text, wanted):
        assert Nvidia().wants_one_numa({"nvidia.com/numa-bind": text}) is wanted

    def test_every_annotation_that_matters_is_listed(self):
        assert set(Nvidia().policy_annotations) == {
            "nvidia.com/use-gputype",
            "nvidia.com/nouse-gputype",
            "nvidia.com/use-gpuuuid",
            "nvidia.com/nouse-gpuuuid",
            "nvidia.com/numa-bind",
            "nvidia.com/vgpu-mode",
        }


class TestNode:
    @pytest.mark.parametrize(
        "text",
        [
            f"GPU-0,5,8192,100,{A100},0,true:",
            f"GPU-0,5,8192,100,{A100},0,true,0,hami-core:",
            f'[{{"id":"GPU-0","count":5,"devmem":8192,"devcore":100,"type":"{A100}","health":true,"mode":"hami-core"}}]',
        ],
    )
    def test_every_form_of_registration_is_read(self, text):
        registered = Nvidia().devices(node({"hami.io/node-nvidia-register": text}))
        assert registered == [Device("GPU-0", 0, 5, 8192, 100, A100, 0, True, "hami-core")]

    def test_a_node_that_registers_nothing_has_no_devices(self):
        assert Nvidia().devices(node()) == []
        assert Nvidia().cordoned(node()) == frozenset()
        assert Nvidia().pair_scores(node()) == {}

    def test_an_emptied_registration_is_an_error(self):
        with pytest.raises(DecodeError):
            Nvidia().devices(node({"hami.io/node-nvidia-register": ""}))

    def test_cordoned_cards_are_listed(self):
        assert Nvidia().cordoned(node({"hami.io/device-cordon": "GPU-1, GPU-2,"})) == {"GPU-1", "GPU-2"}

    def test_pair_scores_are_read_per_card(self):
        text = '[{"uuid":"GPU-0","score":{"GPU-1":50,"GPU-2":20}},{"uuid":"GPU-1"}]'
        scores = Nvidia().pair_scores(node({"hami.io/node-nvidia-score": text}))
        assert scores == {"GPU-0": {"GPU-1": 50, "GPU-2": 20}, "GPU-1": {}}

    @pytest.mark.parametrize("text", ["", "{}", '[{"score":{}}]', '[{"uuid":"a","score":{"b":"x"}}]'])
    def test_pair_scores_that_cannot_be_read_are_an_error(self, text):
        with pytest.raises(DecodeError):
            Nvidia().pair_scores(node({"hami.io/node-nvidia-score": text}))


USE = DeviceUse("nvidia-device-0", 2000, 1)
TEXT = "nvidia-device-0,NVIDIA,2000,1:;"
ALLOCATED = "hami.io/vgpu-devices-allocated"


class TestPod:
    def test_the_same_text_is_work_list_and_record(self):
        assert Nvidia().encode_pod(((USE,),), Handover()) == {"hami.io/vgpu-devices-to-allocate": TEXT, ALLOCATED: TEXT}

    def test_a_pod_that_was_given_nothing_gets_no_annotation(self):
        assert Nvidia().encode_pod((), Handover()) == {}
        assert Nvidia().encode_pod(((), ()), Handover()) == {}

    def test_mig_instances_survive_the_way_to_the_pod_and_back(self):
        uses = ((), (USE, DeviceUse("GPU-1", 4864, 14, "1g.5gb", MigPlacement(6, 1))))
        annotations = Nvidia().encode_pod(uses, Handover())
        assert annotations["hami.io/vgpu-mig-allocations"] == (
            '[{"containerIndex":1,"deviceIndex":1,"gpuUUID":"GPU-1","profile":"1g.5gb",'
            '"placement":{"start":6,"size":1}}]'
        )
        assert Nvidia().decode_pod(pod(annotations, containers=2)) == uses

    @pytest.mark.parametrize("annotations", [None, {}, {ALLOCATED: ""}, {ALLOCATED: " "}])
    def test_a_pod_without_record_holds_nothing(self, annotations):
        assert Nvidia().decode_pod(pod(annotations)) is None

    @pytest.mark.parametrize(
        ("text", "init", "containers", "expected"),
        [
            (f";{TEXT}", 1, 1, ((), (USE,))),
            (TEXT, 1, 1, ((), (USE,))),
            (f"{TEXT};", 2, 2, ((), (), (USE,), ())),
            (TEXT, 0, 2, ((USE,),)),
            (TEXT, 1, 2, ((USE,),)),
            (TEXT * 3, 0, 1, ((USE,),) * 3),
        ],
    )
    def test_old_records_leave_out_the_init_containers(self, text, init, containers, expected):
        assert Nvidia().decode_pod(pod({ALLOCATED: text}, init=init, containers=containers)) == expected

    @pytest.mark.parametrize(
        "annotations",
        [{ALLOCATED: "uuid,type,100:;"}, {ALLOCATED: TEXT, "hami.io/vgpu-mig-allocations": "[{}]"}],
    )
    def test_a_record_that_cannot_be_read_is_an_error(self, annotations):
        with pytest.raises(DecodeError):
            Nvidia().decode_pod(pod(annotations))
