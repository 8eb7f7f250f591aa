"""Cambricon, Hygon and Iluvatar: names, units, capacity, admission and what their plugins read."""

import pytest

from tests.devices.objects import container, node, pod
from tonnage.devices.base import (
    NOT_MATCHED,
    Admission,
    AdmissionChange,
    AdmissionError,
    DecodeError,
    Device,
    DeviceRequest,
    DeviceUse,
    Handover,
    RequestError,
)
from tonnage.devices.cambricon import Cambricon
from tonnage.devices.catalog import default_vendors
from tonnage.devices.hygon import Hygon
from tonnage.devices.iluvatar import Iluvatar, IluvatarLegacy


def cards(*uuids, first=0):
    return {uuid: Device(uuid, index, 100, 25600, 100, "") for index, uuid in enumerate(uuids, first)}


class TestCambricon:
    VCORE, VMEMORY, COUNT = "cambricon.com/mlu.smlu.vcore", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/vmlu"

    def test_cards_follow_from_capacity(self):
        offering = node(capacity={self.VCORE: "200", self.VMEMORY: "192"})
        assert Cambricon().devices(offering) == [
            Device("n1-cambricon-mlu-0", 0, 100, 24576, 100, "MLU"),
            Device("n1-cambricon-mlu-1", 1, 100, 24576, 100, "MLU"),
        ]

    def test_memory_counts_in_units_of_256_mib(self):
        asked = container({self.COUNT: 1, self.VMEMORY: 1000, self.VCORE: 1})
        assert Cambricon().request(asked) == DeviceRequest("MLU", 1, 256000, 0, 1)

    def test_a_card_is_whole_by_default(self):
        assert Cambricon().request(container({self.COUNT: 2})) == DeviceRequest("MLU", 2, 0, 100, 100)

    @pytest.mark.parametrize("memory", ["16Gi", "8388608", "0.5"])
    def test_memory_with_a_unit_or_beyond_32_bits_is_an_error(self, memory):
        with pytest.raises(RequestError, match="counts in units of 256 MiB"):
            Cambricon().request(container({self.COUNT: 1, self.VMEMORY: memory}))

    def test_admission_matches_by_the_count_alone(self):
        assert Cambricon().admit(container({self.COUNT: 1})) == Admission(True)
        assert Cambricon().admit(container({self.VMEMORY: 1})) == NOT_MATCHED
        assert Cambricon().admit(container({self.COUNT: 0})) == NOT_MATCHED

    def test_admission_refuses_what_makes_no_sense(self):
        with pytest.raises(AdmissionError, match="16Gi"):
            Cambricon().admit(container({self.COUNT: 1, self.VMEMORY: "16Gi"}))

    def test_the_plugin_is_told_the_profile_of_the_first_card(self):
        uses = ((), (DeviceUse("device-0", 256000, 1),))
        text = ";device-0,MLU,256000,1:;"
        assert Cambricon().encode_pod(uses, Handover(devices=cards("device-0"))) == {
            "hami.io/cambricon-mlu-devices-to-allocate": text,
            "hami.io/cambricon-mlu-devices-allocated": text,
            "CAMBRICON_DSMLU_ASSIGNED": "false",
            "CAMBRICON_DSMLU_PROFILE": "0_1_1000",
        }
        assert Cambricon().decode_pod(pod({"hami.io/cambricon-mlu-devices-allocated": text}, containers=2)) == uses

    def test_capacity_that_makes_no_sense_is_an_error(self):
        with pytest.raises(DecodeError):
            Cambricon().devices(node(capacity={self.VCORE: "lots"}))


class TestHygon:
    def test_registration_request_and_record(self):
        register = {"hami.io/node-dcu-register": "DCU-0,4,65536,60,DCU-K100,0,true:"}
        assert Hygon().devices(node(register)) == [Device("DCU-0", 0, 4, 65536, 60, "DCU-K100", mode="hami-core")]
        asked = container({"hygon.com/dcumem": 2000}, requests={"hygon.com/dcunum": 1})
        assert Hygon().request(asked) == DeviceRequest("DCU", 1, 2000, 0, 100)
        text = "DCU-0,DCU,2000,100:;"
        assert Hygon().encode_pod(((DeviceUse("DCU-0", 2000, 100),),), Handover()) == {
            "hami.io/dcu-devices-to-allocate": text,
            "hami.io/dcu-devices-allocated": text,
        }

    def test_types_are_named_by_a_part_of_the_model(self):
        assert not Hygon().accepts_type("DCU-K100", "", {"hygon.com/use-dcutype": "z100"})
        assert not Hygon().accepts_type("DCU-K100", "", {"hygon.com/nouse-dcutype": "k100"})
        assert Hygon().accepts_type("DCU-K100", "", {"hygon.com/use-dcutype": "k100,z100"})
        assert Hygon().uuid_lists({"hygon.com/use-gpuuuid": "DCU-0"}) == ({"DCU-0"}, frozenset())


class TestIluvatarLegacy:
    COUNT, VMEMORY, VCORE = "iluvatar.ai/vgpu", "iluvatar.ai/vcuda-memory", "iluvatar.ai/vcuda-core"

    def test_cards_follow_from_capacity_and_are_counted_from_one(self):
        offering = node(capacity={self.VCORE: 200, self.VMEMORY: 256})
        assert [(card.uuid, card.index, card.memory) for card in IluvatarLegacy().devices(offering)] == [
            ("n1-iluvatar-1", 1, 32768),
            ("n1-iluvatar-2", 2, 32768),
        ]

    def test_cores_are_not_limited_by_default(self):
        asked = container({self.COUNT: 1, self.VMEMORY: 64})
        assert IluvatarLegacy().request(asked) == DeviceRequest("Iluvatar", 1, 16384, 0, 0)

    def test_several_cards_are_whole_ones(self):
        assert IluvatarLegacy().admit(container({self.COUNT: 1})) == Admission(True)
        several = Admission(True, (AdmissionChange("limits", self.VCORE, "200"),))
        assert IluvatarLegacy().admit(container({self.COUNT: 2})) == several

    def test_the_plugin_is_told_the_indexes_of_each_container(self):
        uses = ((DeviceUse("a", 256, 50),), (), (DeviceUse("b", 256, 100), DeviceUse("a", 256, 50)))
        annotations = IluvatarLegacy().encode_pod(uses, Handover(devices=cards("a", "b", first=1)))
        assert annotations["iluvatar.ai/predicate-gpu-idx-0"] == "1"
        assert annotations["iluvatar.ai/predicate-gpu-idx-2"] == "2,1"
        assert "iluvatar.ai/predicate-gpu-idx-1" not in annotations
        assert "hami.io/iluvatar-vgpu-devices-allocated" in annotations


class TestIluvatar:
    def test_everything_is_named_after_the_chip(self):
        vendor = Iluvatar("MR-V100")
        register = {"hami.io/node-MR-V100-register": "GPU-0,100,32768,100,MR-V100,0,true:"}
        assert [card.uuid for card in vendor.devices(node(register))] == ["GPU-0"]
        asked = container({"iluvatar.ai/MR-V100-vgpu": 1, "iluvatar.ai/MR-V100.vMem": 64})
        assert vendor.request(asked) == DeviceRequest("MR-V100", 1, 16384, 0, 0)
        text = "GPU-0,MR-V100,16384,0:;"
        assert vendor.encode_pod(((DeviceUse("GPU-0", 16384, 0),),), Handover()) == {
            "hami.io/MR-V100-devices-to-allocate": text,
            "hami.io/MR-V100-devices-allocated": text,
        }
        assert vendor.uuid_lists({"hami.io/no-use-MR-V100-uuid": "GPU-0"}) == (None, {"GPU-0"})

    def test_the_driver_is_told_the_name_of_the_container(self):
        vendor, limits = Iluvatar("BI-V150"), {"iluvatar.ai/BI-V150-vgpu": 2}
        whole = AdmissionChange("limits", "iluvatar.ai/BI-V150.vCore", "200")
        assert vendor.admit(container(limits)).changes == (whole, AdmissionChange("env", "SOL_CONTINER_NAME", "main"))
        assert vendor.admit(container(limits, env=("SOL_CONTINER_NAME",))).changes == (whole,)
        assert vendor.admit(container(limits, name="")).changes == (whole,)
        assert vendor.admit(container()) == NOT_MATCHED


def test_the_catalogue_has_every_vendor_once_and_in_order():
    vendors = default_vendors()
    assert [vendor.name for vendor in vendors[:8]] == [
        "NVIDIA",
        "MLU",
        "DCU",
        "Iluvatar",
        "MR-V100",
        "MR-V50",
        "BI-V100",
        "BI-V150",
    ]
    assert [vendor.name for vendor in vendors[16:]] == [
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
    assert {vendor.name for vendor in vendors[8:16]} == {
        "Ascend910A",
        "Ascend910B",
        "Ascend910B2",
        "Ascend910B3",
        "Ascend910B4",
        "Ascend910B4-1",
        "Ascend910C",
        "Ascend310P",
    }
    for attribute in ("name", "count_resource", "to_allocate", "allocated", "side_resources"):
        values = [value for vendor in vendors if (value := getattr(vendor, attribute))]
        assert len(set(values)) == len(values)
    assert all(vendor.allocated for vendor in vendors)
