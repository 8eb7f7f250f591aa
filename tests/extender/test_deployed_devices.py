"""What `deploy/manifests` says about devices is what the catalog has."""

import yaml

from tests.paths import ROOT
from tonnage.devices.catalog import default_vendors
from tonnage.extender.options import ExtenderOptions
from tonnage.extender.vendors import configured_vendors

MANIFEST = ROOT / "deploy" / "manifests" / "extender.yaml"


def resources(vendors):
    return [name for vendor in vendors for name in (vendor.count_resource, *vendor.side_resources)]


def config_map(name):
    things = yaml.safe_load_all(MANIFEST.read_text())
    return next(thing["data"] for thing in things if thing["kind"] == "ConfigMap" and thing["metadata"]["name"] == name)


def flags():
    for thing in yaml.safe_load_all(MANIFEST.read_text()):
        if thing["kind"] == "Deployment":
            containers = thing["spec"]["template"]["spec"]["containers"]
            return next(one["args"] for one in containers if one.get("args", [""])[0] == "extender")


def test_kube_scheduler_leaves_all_devices_to_the_extender():
    configuration = yaml.safe_load(config_map("tonnage-kube-scheduler")["config.yaml"])
    (extender,) = configuration["extenders"]
    managed = extender["managedResources"]
    assert [one["name"] for one in managed] == sorted(resources(default_vendors()))
    assert all(one["ignoredByScheduler"] for one in managed)


def test_the_extender_knows_all_vendors_that_are_left_to_it(tmp_path):
    file = tmp_path / "device-config.yaml"
    file.write_text(config_map("tonnage-devices")["device-config.yaml"])
    given = flags()
    found = configured_vendors(
        ExtenderOptions(
            device_config_file=str(file),
            enable_ascend="--enable-ascend" in given,
            enable_iluvatar="--enable-iluvatar" in given,
        )
    )
    assert found.warnings == []
    assert [vendor.name for vendor in found.vendors] == [vendor.name for vendor in default_vendors()]
    assert resources(found.vendors) == resources(default_vendors())
