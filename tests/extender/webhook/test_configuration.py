"""The webhook's configuration: the API server asks about every pod that admission would change, deny or warn about.

Whether the API server understands the condition as it is meant is tested in tests/e2e/test_webhook_conditions.py.
"""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.command import tonnage
from tests.extender.pods import OURS, box, judge, pod
from tests.paths import ROOT
from tests.properties.worlds import examples
from tonnage.devices.ascend import CHIPS, Ascend
from tonnage.devices.base import Vendor
from tonnage.devices.catalog import default_vendors
from tonnage.devices.nvidia import Nvidia
from tonnage.extender.webhook.admission import device_resources
from tonnage.extender.webhook.configuration import match_conditions, webhook_configuration

FILE = ROOT / "deploy" / "manifests" / "extender.yaml"
NAMES = sorted(device_resources(default_vendors()))
AMOUNTS = st.dictionaries(
    st.sampled_from([*NAMES, "cpu", "example.com/fpga"]),
    st.sampled_from(["0", "1", "3", "100", "8738", "x"]),
    max_size=2,
)
CONTAINERS = st.lists(
    st.builds(
        lambda limits, requests, privileged: box(
            resources={"limits": limits, "requests": requests}, securityContext={"privileged": privileged}
        ),
        AMOUNTS,
        AMOUNTS,
        st.booleans(),
    ),
    max_size=2,
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(["gpu-fraction", "gpu-memory", "nvidia.com/use-gputype", "metaxgpu.com/qos-policy"]),
    st.sampled_from(["0.5", "4000", "A100"]),
)


def device_config():
    things = yaml.safe_load_all(FILE.read_text())
    return next(one["data"]["device-config.yaml"] for one in things if one["metadata"]["name"] == "tonnage-devices")


def deployed_webhook():
    return next(one for one in yaml.safe_load_all(FILE.read_text()) if one["kind"] == "MutatingWebhookConfiguration")


def names_devices(thing):
    """What the condition says, in Python."""
    spec = thing["spec"]
    return any(
        name in NAMES
        for container in (*spec["containers"], *spec.get("initContainers", ()))
        for amounts in container["resources"].values()
        for name in amounts
    )


@settings(max_examples=examples(300), deadline=None)
@given(CONTAINERS, CONTAINERS, ANNOTATIONS, st.sampled_from([OURS, "default-scheduler", "other"]), st.booleans())
def test_whatever_pod_admission_minds_is_asked_about(main, init, annotations, scheduler, deny_privileged):
    asked = pod(box("first"), *main, init=init, schedulerName=scheduler, nodeName="n")
    asked["metadata"]["annotations"] = annotations
    verdict = judge(asked, vendors=default_vendors(), deny_privileged=deny_privileged)
    minds = not verdict.allowed or verdict.operations or verdict.warnings
    assert names_devices(asked) or not minds


@pytest.mark.parametrize(
    "vendors",
    [
        [Nvidia(overwrite_env=True)],
        [Nvidia(core_policy="force")],
        [Nvidia(), *(Ascend(chip, hidden_without=("huawei.com/Ascend910A",)) for chip in CHIPS[:1])],
    ],
    ids=["overwriteEnv", "gpuCorePolicy", "overwriteEnv of an Ascend chip"],
)
def test_where_every_pod_is_changed_there_is_no_condition(vendors: list[Vendor]):
    assert judge(pod(box()), vendors=vendors).operations
    assert match_conditions(vendors) == []
    assert "matchConditions" not in webhook_configuration(vendors)["webhooks"][0]


def test_the_condition_names_every_resource_and_nothing_else():
    (condition,) = match_conditions(default_vendors())
    quoted = condition["expression"].split("'")[1::2]
    assert quoted == NAMES


def test_the_manifest_is_what_the_command_prints(tmp_path):
    config = tmp_path / "device-config.yaml"
    config.write_text(device_config())
    done = tonnage("manifests", "webhook", "--device-config-file", config)
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout) == deployed_webhook()
    assert tonnage("manifests", "webhook").stdout == done.stdout
    assert json.loads(tonnage("manifests", "webhook", "-o", "json").stdout) == yaml.safe_load(done.stdout)
    sections = yaml.safe_load(device_config())
    sections["nvidia"]["overwriteEnv"] = True
    config.write_text(yaml.safe_dump(sections))
    (webhook,) = yaml.safe_load(tonnage("manifests", "webhook", "--device-config-file", config).stdout)["webhooks"]
    assert "matchConditions" not in webhook


def test_a_bad_device_configuration_is_told(tmp_path):
    config = tmp_path / "device-config.yaml"
    config.write_text("nvidia: {resourceCountName: 7}\n")
    done = tonnage("manifests", "webhook", "--device-config-file", config)
    assert done.returncode == 2
    assert "the device configuration is not valid" in done.stderr
    assert done.stdout == ""
