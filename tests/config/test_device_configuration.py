"""HAMi's device configuration: the vendors it makes, and everything that may be wrong with it."""

import re
from textwrap import indent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.config.device_texts import FULL, NVIDIA, OLD_LIST, errors, vendors, warnings
from tests.devices.objects import container
from tests.properties.worlds import examples
from tonnage.config.deviceconfig import is_device_configuration
from tonnage.devices.base import Admission, AdmissionChange, DeviceRequest, Handover


def wrapped(text: str, key: str = "device-config.yaml") -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: devices\ndata:\n  {key}: |-\n{indent(text, '    ')}"


class TestVendors:
    def test_every_vendor_that_tonnage_knows_comes_in_the_usual_order(self):
        assert list(vendors(FULL)) == [
            "NVIDIA",
            "MLU",
            "DCU",
            "MR-V100",
            "Ascend310X",
            "Metax-GPU",
            "Metax-SGPU",
            "GCU",
            "Enflame",
            "Mthreads",
            "kunlun",
            "XPU",
            "AWSNeuron",
            "AMD",
            "Vastai",
            "Biren",
        ]

    def test_nvidia_has_the_names_and_defaults_of_the_file(self):
        nvidia = vendors(FULL)["NVIDIA"]
        asked = container({"acme.com/gpumem": 100})
        assert nvidia.request(asked) == DeviceRequest("NVIDIA", 2, 400, 101, 10)
        assert nvidia.request(container({"acme.com/gpu": 1})) == DeviceRequest("NVIDIA", 1, 512, 101, 10)
        assert nvidia.request(container({"nvidia.com/gpu": 1})) is None
        assert nvidia.admit(container({"acme.com/gpu": 1, "acme.com/gpumem": 1, "acme.com/priority": 1})).changes == (
            AdmissionChange("env", "CUDA_TASK_PRIORITY", "1"),
            AdmissionChange("env", "GPU_CORE_UTILIZATION_POLICY", "force"),
            AdmissionChange("runtimeClassName", "runtimeClassName", "nvidia"),
        )
        assert AdmissionChange("env", "NVIDIA_VISIBLE_DEVICES", "none") in nvidia.admit(container()).changes

    def test_other_vendors_have_their_names_and_factors(self):
        made = vendors(FULL)
        assert made["MLU"].request(container({"acme.com/mlu": 1, "acme.com/mlu-memory": 1})).memory == 256
        assert made["DCU"].request(container({"acme.com/dcu": 1, "acme.com/dcu-memory": 800})).memory == 1600
        assert made["MR-V100"].request(container({"acme.com/mr": 2, "acme.com/mr-memory": 1})).memory == 256
        assert made["MR-V100"].side_resources == ("acme.com/mr-memory", "acme.com/mr-core")

    def test_ascend_chips_have_their_templates_in_order_and_their_unit(self):
        npu = vendors(FULL)["Ascend310X"]
        assert [template.name for template in npu.chip.templates] == ["small", "large"]
        part = container({"acme.com/npu": 1, "acme.com/npu-memory": 1000})
        assert npu.request(part).memory == 12001
        changes = npu.admit(part).changes
        assert changes == (
            AdmissionChange("limits", "acme.com/npu-memory", "3000"),
            AdmissionChange("requests", "acme.com/npu-memory", "3000"),
            AdmissionChange("runtimeClassName", "runtimeClassName", "ascend"),
        )
        after = container({"acme.com/npu": 1, "acme.com/npu-memory": "3000"})
        assert npu.request(after).memory == 12001
        assert npu.request(container({"acme.com/npu": 1, "acme.com/npu-memory": 5000})).memory == 20000

    def test_npus_are_hidden_from_containers_that_ask_for_no_chip_at_all(self):
        both = OLD_LIST.replace("  aiCore: 20\n", "  overwriteEnv: true\n")
        chip = vendors(both)["Ascend910B3"]
        assert chip.admit(container()) == Admission(False, (AdmissionChange("env", "ASCEND_VISIBLE_DEVICES", ""),))
        assert chip.admit(container({"huawei.com/Ascend910C": 2})) == Admission(False)
        assert chip.admit(container({"huawei.com/Ascend910B3": 1})).matched
        assert vendors(both)["Ascend910C"].admit(container()) == Admission(False)

    def test_what_plugins_read_is_named_after_the_chip_and_not_after_its_resource(self):
        npu = vendors(FULL)["Ascend310X"]
        assert npu.allocated == "hami.io/Ascend310X-devices-allocated"
        assert "huawei.com/Ascend310X" in npu.extras(((),), Handover())

    def test_a_vendor_without_a_section_is_not_there(self):
        assert list(vendors(NVIDIA)) == ["NVIDIA"]
        assert list(vendors(NVIDIA + "hygon:\ncambricon: {}\nvnpus: []\n")) == ["NVIDIA"]

    def test_what_a_section_leaves_out_is_empty_or_zero_as_in_hami(self):
        (note,) = warnings("nvidia: {resourceCountName: nvidia.com/gpu}\n")
        assert note.startswith("FILE:1:9: nvidia: without defaultGPUNum")
        nvidia = vendors("nvidia: {resourceCountName: nvidia.com/gpu}\n")["NVIDIA"]
        assert nvidia.side_resources == ()
        assert nvidia.request(container({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 5})).memory == 0

    def test_a_complete_configuration_has_nothing_to_warn_of(self):
        assert warnings(FULL) == []

    @pytest.mark.parametrize(
        ("section", "name", "resources"),
        [
            ("metax: {resourceCountName: a/b}", "Metax-GPU", ("a/b",)),
            (
                "metax: {resourceVCountName: a/b, resourceVMemoryName: a/m, resourceVCoreName: a/c}",
                "Metax-SGPU",
                ("a/b", "a/m", "a/c"),
            ),
            (
                "enflame: {resourceNameDRSGCU: a/b, resourceNameGCUMemory: a/m, resourceNameGCUCore: a/c}",
                "Enflame",
                ("a/b", "a/m", "a/c"),
            ),
            (
                "enflame: {resourceNameVGCU: a/b}",
                "Enflame",
                ("a/b", "enflame.com/gcu-memory", "enflame.com/gcu-core"),
            ),
            ("mthreads: {resourceCountName: a/b, resourceMemoryName: a/m}", "Mthreads", ("a/b", "a/m")),
            ("kunlun: {resourceCountName: a/b}", "kunlun", ("a/b",)),
            ("kunlun: {resourceVCountName: a/b, resourceVMemoryName: a/m}", "XPU", ("a/b", "a/m")),
            ("awsneuron: {resourceCountName: a/b, resourceCoreName: a/c}", "AWSNeuron", ("a/b", "a/c")),
            ("amd: {resourceCountName: a/b, resourceCoreName: a/c}", "AMD", ("a/b", "a/c")),
            ("vastai: {resourceCountName: a/b}", "Vastai", ("a/b",)),
            ("biren: {resourceCountName: a/b}", "Biren", ("a/b",)),
        ],
    )
    def test_a_section_names_the_resources_of_its_vendor(self, section, name, resources):
        found = vendors(section + "\n")
        assert list(found) == [name]
        assert (found[name].count_resource, *found[name].side_resources) == resources

    def test_whole_gcus_bring_those_that_drs_cuts(self):
        assert list(vendors("enflame: {resourceNameGCU: a/b}\n")) == ["GCU", "Enflame"]

    def test_cards_of_moore_threads_may_have_other_sizes(self):
        (mthreads,) = vendors("mthreads: {resourceCountName: a/b, memoryPerCard: [160]}\n").values()
        assert mthreads.memory_of_cards == (160,)

    def test_what_is_not_done_is_named_in_warnings(self):
        (told,) = warnings("metax: {resourceVCountName: a/b, sgpuTopologyAware: true}\n")
        assert told == "FILE:1:8: sgpuTopologyAware: Tonnage does not score nodes by the links of sGPUs yet"
        (told,) = warnings("enflame: {resourceNameVGCU: a/b, resourceNameVGCUPercentage: a/p}\n")
        assert "does not know the shared GCUs of before HAMi 2.10" in told

    def test_soft_split_npus_are_not_there_yet(self):
        soft = FULL.replace("hamiVnpuCore: false", "hamiVnpuCore: true")
        assert any("hamiVnpuCore: Tonnage does not share" in line for line in warnings(soft))

    def test_settings_of_all_chips_may_stand_above_them(self):
        above = FULL.replace("hamiVnpuCore: false", "overwriteEnv: true\n  runtimeClassName: all")
        above = above.replace("    runtimeClassName: ascend\n    overwriteEnv: true\n", "")
        npu = vendors(above)["Ascend310X"]
        assert npu.runtime_class == "all"
        assert npu.admit(container()).changes


class TestOldForms:
    def test_chips_as_a_list(self):
        made = vendors(OLD_LIST)
        assert list(made) == ["Ascend910B3", "Ascend910C"]
        assert made["Ascend910B3"].request(container({"huawei.com/Ascend910B3": 1})).memory == 0
        assert made["Ascend910B3"].side_resources == ("huawei.com/Ascend910B3-memory",)

    def test_the_910c_comes_in_modules_without_being_told(self):
        made = vendors(OLD_LIST)
        assert made["Ascend910C"].chip.in_modules
        assert not made["Ascend910B3"].chip.in_modules
        assert vendors(OLD_LIST.replace("aiCore: 20", "superPod: true"))["Ascend910B3"].chip.in_modules

    def test_mig_geometries(self):
        geometries = NVIDIA + (
            "  knownMigGeometries:\n  - models: [A30]\n    allowedGeometries:\n"
            "    - - name: 1g.6gb\n        memory: 6144\n        count: 4\n"
        )
        assert list(vendors(geometries)) == ["NVIDIA"]
        (wrong,) = errors(geometries.replace("count", "cuont"))
        assert wrong == "FILE:9:9: allowedGeometries has no key cuont; did you mean count?"

    def test_one_section_for_all_iluvatar_chips(self):
        assert list(vendors("iluvatar: {resourceCountName: iluvatar.ai/vgpu}\n")) == ["Iluvatar"]


class TestConfigMap:
    @pytest.mark.parametrize("key", ["device-config.yaml", "ascend-config.yaml"])
    def test_a_configuration_may_be_wrapped(self, key):
        assert list(vendors(wrapped(OLD_LIST, key))) == ["Ascend910B3", "Ascend910C"]

    def test_places_are_those_in_the_file(self):
        (wrong,) = errors(wrapped(NVIDIA.replace("defaultGPUNum", "defaultGPUNumber")))
        assert wrong == "FILE:9:7: nvidia has no key defaultGPUNumber; did you mean defaultGPUNum?"

    def test_it_must_hold_one(self):
        (wrong,) = errors("apiVersion: v1\nkind: ConfigMap\ndata: {other.yaml: a}\n")
        assert "must hold one of device-config.yaml and ascend-config.yaml" in wrong
        (wrong,) = errors("apiVersion: v1\nkind: Pod\n")
        assert "not a device configuration; expected sections such as nvidia" in wrong


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("nvidea: {}\n", "1:1: a device configuration has no section nvidea; did you mean nvidia?"),
            ("nvidia: 5\n", "1:9: nvidia: expected a map, got a whole number"),
            ("nvidia: []\n", "1:1: all sections are empty, so that no pod could ask for any card"),
            ("hygon:\n", "1:1: all sections are empty, so that no pod could ask for any card"),
            ("{}\n", "1:1: expected a map with sections such as nvidia, cambricon, hygon, got an empty map"),
            ("- a\n", "1:1: expected a map with sections such as nvidia, cambricon, hygon, got a list"),
            ("", "1:1: no configuration; the file is empty or holds only comments"),
            (NVIDIA + "  overwriteEnv: maybe\n", "4:17: overwriteEnv: expected true or false, got text"),
            (NVIDIA + '  overwriteEnv: "true"\n', "4:17: overwriteEnv: expected true or false, got text"),
            (NVIDIA + "  defaultMemory: 1Gi\n", "4:18: defaultMemory: expected a whole number, got text"),
            (NVIDIA + "  defaultMemory: 1.5\n", "4:18: defaultMemory: expected a whole number, got a number"),
            (NVIDIA + "  defaultMemory: -1\n", "4:18: defaultMemory: expected a whole number >= 0, got -1"),
            (
                NVIDIA + "  defaultMemory: 3000000000\n",
                "4:18: defaultMemory: expected a whole number <= 2147483647, got 3000000000",
            ),
            (NVIDIA + "  defaultCores: 101\n", "4:17: defaultCores: expected a whole number <= 100, got 101"),
            (NVIDIA + "  deviceCoreScaling: big\n", "4:22: deviceCoreScaling: expected a number, got text"),
            (
                NVIDIA + "  gpuCorePolicy: forced\n",
                "4:18: gpuCorePolicy: forced is none of default, force, disable; did you mean force?",
            ),
            (
                NVIDIA + "  resourceCoreName: my gpu\n",
                "4:21: resourceCoreName: 'my gpu' is no name of a resource, such as nvidia.com/gpu",
            ),
            (NVIDIA + "  resourceCoreName: [a]\n", "4:21: resourceCoreName: expected text, got a list"),
            (NVIDIA + "  migProfileAllowlist: A30\n", "4:24: migProfileAllowlist: expected a list, got text"),
            (NVIDIA + "  migProfileAllowlist: [{models: [3]}]\n", "4:35: models: expected text, got a whole number"),
            (
                NVIDIA + "  resourceCoreName: nvidia.com/gpu\n",
                "4:21: resourceCoreName: nvidia.com/gpu stands twice; the first is on line 2",
            ),
            (
                NVIDIA + "hygon: {resourceCountName: nvidia.com/gpu}\n",
                "4:28: resourceCountName: nvidia.com/gpu stands twice; the first is on line 2",
            ),
            ("nvidia: {defaultGPUNum: 1}\n", "1:9: nvidia: resourceCountName must be given"),
            ("nvidia: {resourceCountName: '', defaultGPUNum: 1}\n", "1:9: nvidia: resourceCountName must be given"),
            ("iluvatars: [{commonWord: a}]\n", "1:13: iluvatars: resourceCountName must be given"),
            ("iluvatars: {commonWord: a}\n", "1:12: iluvatars: expected a list, got a map"),
            (
                "vnpus: [{commonWord: a}]\n",
                "1:9: vnpus: resourceName and memoryCapacity and memoryAllocatable must be given",
            ),
            ("vnpus: many\n", "1:8: vnpus: expected a list, got text"),
            ("vnpus: {config: []}\n", "1:9: vnpus has no key config; did you mean configs?"),
            ("metax: {sgpuTopologyAware: true}\n", "1:8: metax: resourceCountName or resourceVCountName must be given"),
            (
                "kunlun: {resourceVMemoryName: a}\n",
                "1:9: kunlun: resourceCountName or resourceVCountName must be given",
            ),
            ("biren: {resourceCountName: ''}\n", "1:8: biren: resourceCountName must be given"),
            (
                "metax: {resourceVCuontName: a}\n",
                "1:9: metax has no key resourceVCuontName; did you mean resourceVCountName?",
            ),
            (
                OLD_LIST.replace("commonWord: Ascend910C", "commonWord: Ascend910B3"),
                "14:15: commonWord: Ascend910B3 stands twice; the first is on line 3",
            ),
            (
                OLD_LIST.replace("memory: 16384", "memory: 99999"),
                "2:3: vnpus: Ascend910B3: each template needs a name and a memory from 1 to the chip's memoryCapacity "
                "of 65536",
            ),
            (NVIDIA + NVIDIA, "4:1: the key nvidia stands twice; the first is on line 1"),
        ],
    )
    def test_everything_wrong_is_told_with_its_place_and_the_nearest_name(self, text, expected):
        assert f"FILE:{expected}" in errors(text)

    def test_one_mistake_does_not_hide_the_next(self):
        text = NVIDIA + "  overwriteEnv: 1\n  defaultCore: 5\nhygn: {}\nvnpus: [{templates: [{nam: a}]}]\n"
        assert [line.split(": ")[0] for line in errors(text)] == ["FILE:4:17", "FILE:5:3", "FILE:6:1", "FILE:7:23"]

    @settings(max_examples=examples(150))
    @given(st.data())
    def test_no_edit_of_a_file_is_more_than_an_error(self, data):
        lines = FULL.splitlines()
        for _ in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.integers(0, len(lines) - 1))
            edit = data.draw(st.sampled_from(["drop", "twice", "word", "indent"]))
            if edit == "drop":
                lines.pop(place)
            elif edit == "twice":
                lines.insert(place, lines[place])
            elif edit == "indent":
                lines[place] = "  " + lines[place]
            else:
                key, _, _ = lines[place].partition(":")
                lines[place] = f"{key}: " + data.draw(st.sampled_from(["", "x", "[]", "{}", "-3", "1.5", "true", "*a"]))
        assert all(re.match(r"FILE:\d+:\d+: ", error) for error in errors("\n".join(lines) + "\n"))


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (FULL, True),
        (OLD_LIST, True),
        (wrapped(FULL), True),
        (wrapped(FULL, "ascend-config.yaml"), True),
        (NVIDIA + NVIDIA, True),
        ("nvidia: {typo: 1}\nnonsense: 1\n", True),
        ("actions: allocate\n", False),
        ("actions: allocate\nnvidia: {}\n", False),
        (wrapped(FULL, "config.yaml"), False),
        ("", False),
        ("- nvidia\n", False),
        ("nvidia: {", False),
    ],
)
def test_a_device_configuration_is_told_from_others(text, is_one):
    assert is_device_configuration(text, "FILE") is is_one
