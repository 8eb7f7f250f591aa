"""Which vendors an extender serves: a device configuration counts more than flags of old."""

from pathlib import Path

import pytest

from tests.config.device_texts import FULL, NVIDIA, OLD_LIST
from tests.devices.objects import container
from tonnage.config.notes import ConfigError
from tonnage.devices.base import DeviceRequest
from tonnage.devices.catalog import default_vendors
from tonnage.extender.options import DeviceFlags, ExtenderOptions
from tonnage.extender.vendors import configured_vendors


def written(folder: Path, text: str) -> str:
    path = folder / "device-config.yaml"
    path.write_text(text)
    return str(path)


NEWER = [
    "Metax-GPU", "Metax-SGPU", "GCU", "Enflame", "Mthreads", "kunlun", "XPU", "AWSNeuron", "AMD", "Vastai", "Biren",
]  # fmt: skip
"""Vendors that came after HAMi 2.4."""


def served(**options):
    flags = {name: options.pop(name) for name in list(options) if name in DeviceFlags.__struct_fields__}
    found = configured_vendors(ExtenderOptions(device_flags=DeviceFlags(**flags), **options))
    return {vendor.name: vendor for vendor in found.vendors}, [note.message for note in found.warnings]


def test_without_anything_the_usual_vendors_are_served_but_chips_only_where_enabled():
    assert list(served()[0]) == ["NVIDIA", "MLU", "DCU", "Iluvatar", *NEWER]
    assert "Ascend910B3" in served(enable_ascend=True)[0]
    assert "MR-V100" not in served(enable_ascend=True)[0]
    assert "MR-V100" in served(enable_iluvatar=True)[0]


def test_flags_of_old_are_honoured():
    vendors, warnings = served(
        resource_name="a.com/gpu",
        resource_mem="a.com/mem",
        default_mem=512,
        default_cores=10,
        default_gpu=0,
        overwrite_env=True,
        cambricon_mlu_name="cambricon.com/mlu",
        dcu_name="d.com/dcu",
        iluvatar_name="i.com/gpu",
    )
    nvidia = vendors["NVIDIA"]
    assert nvidia.request(container({"a.com/gpu": 1})) == DeviceRequest("NVIDIA", 1, 512, 101, 10)
    assert nvidia.request(container({"a.com/mem": 1})) is None
    assert nvidia.admit(container()).changes
    assert nvidia.cores_resource == "nvidia.com/gpucores"
    assert vendors["MLU"].request(container({"cambricon.com/mlu": 1}))
    assert vendors["DCU"].request(container({"d.com/dcu": 1}))
    assert vendors["Iluvatar"].request(container({"i.com/gpu": 1}))
    assert warnings == []


@pytest.mark.parametrize(
    ("flag", "vendor", "attribute"),
    [
        ("metax_name", "Metax-GPU", "count_resource"),
        ("metax_vcount", "Metax-SGPU", "count_resource"),
        ("metax_vmemory", "Metax-SGPU", "memory_resource"),
        ("metax_vcore", "Metax-SGPU", "cores_resource"),
        ("mthreads_name", "Mthreads", "count_resource"),
        ("mthreads_memory", "Mthreads", "memory_resource"),
        ("mthreads_cores", "Mthreads", "cores_resource"),
        ("kunlun_name", "kunlun", "count_resource"),
        ("kunlun_vcount", "XPU", "count_resource"),
        ("kunlun_vmemory", "XPU", "memory_resource"),
        ("enflame_gcu_resource_name", "GCU", "count_resource"),
        ("enflame_drs_gcu_resource_name", "Enflame", "count_resource"),
        ("enflame_vgcu_resource_name", "Enflame", "count_resource"),
        ("enflame_gcu_memory_resource_name", "Enflame", "memory_resource"),
        ("enflame_gcu_core_resource_name", "Enflame", "cores_resource"),
    ],
)
def test_flags_of_newer_vendors_are_honoured(flag, vendor, attribute):
    vendors, _ = served(**{flag: "acme.com/x"})
    assert getattr(vendors[vendor], attribute) == "acme.com/x"


def test_a_device_configuration_wins_over_flags_with_a_warning(tmp_path: Path):
    vendors, warnings = served(device_config_file=written(tmp_path, NVIDIA), default_mem=512, resource_name="a.com/gpu")
    assert list(vendors) == ["NVIDIA"]
    assert vendors["NVIDIA"].request(container({"nvidia.com/gpu": 1})).memory == 0
    assert warnings == ["--default-mem, --resource-name: without effect, as the device configuration decides"]


def test_chips_of_a_device_configuration_need_their_flag_too(tmp_path: Path):
    file = written(tmp_path, FULL)
    assert list(served(device_config_file=file)[0]) == ["NVIDIA", "MLU", "DCU", *NEWER]
    everything, warnings = served(device_config_file=file, enable_ascend=True, enable_iluvatar=True)
    assert list(everything) == ["NVIDIA", "MLU", "DCU", "MR-V100", "Ascend310X", *NEWER]
    assert warnings == []


def test_ascend_chips_may_come_from_their_file_of_old(tmp_path: Path):
    file = written(tmp_path, OLD_LIST)
    vendors, _ = served(ascend_config_file=file, enable_ascend=True, resource_name="a.com/gpu")
    assert list(vendors) == ["NVIDIA", "MLU", "DCU", "Iluvatar", *NEWER, "Ascend910B3", "Ascend910C"]
    assert vendors["NVIDIA"].count_resource == "a.com/gpu"
    assert "Ascend910B3" not in served(ascend_config_file=file)[0]


def test_a_wrong_file_is_an_error_with_its_place(tmp_path: Path):
    file = written(tmp_path, "nvidea: {}\n")
    with pytest.raises(ConfigError, match=r"device-config.yaml:1:1: .* did you mean nvidia"):
        served(device_config_file=file)
    with pytest.raises(ConfigError, match="there is no such file"):
        served(device_config_file="/nowhere.yaml")


def test_vendors_are_enabled_by_options_that_there_are():
    enabling = {vendor.enabled_by for vendor in default_vendors()} - {""}
    assert enabling == {"enable_ascend", "enable_iluvatar"}
    assert enabling < {*ExtenderOptions.__struct_fields__}
