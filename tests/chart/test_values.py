"""The chart's values: documented, checked by its schema with the key's name and what is allowed, and one source."""

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.chart.rendering import (
    CHART,
    MANIFEST_FILES,
    POLICY_FILES,
    PROFILES,
    HelmError,
    documents,
    helm,
    profile,
    rendered,
)
from tests.chart.values import SCHEMA, VALUES, described_values
from tests.config.device_texts import FULL
from tests.paths import ROOT
from tonnage.config.deviceconfig import load_devices
from tonnage.config.load import load_text
from tonnage.devices.catalog import sections
from tonnage.extender.webhook.admission import device_resources
from tonnage.extender.webhook.configuration import webhook_configuration


def test_every_value_is_described_and_every_default_is_a_value() -> None:
    for path, part in described_values():
        assert part["description"].endswith("."), path
    known = tuple(path for path, _ in described_values())
    assert [path for path in _leaves(VALUES) if not path.startswith(known)] == []


def _leaves(values: dict[str, Any], before: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{before}{name}.")
        else:
            yield f"{before}{name}"


def test_the_chart_has_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    from tonnage import __version__

    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["version"] == about["appVersion"] == project.get("version", __version__) == __version__


def test_devices_are_the_sections_that_the_servers_read() -> None:
    assert set(SCHEMA["properties"]["devices"]["properties"]) == {*sections()}


@pytest.mark.parametrize("name", PROFILES)
def test_the_configuration_of_a_profile_is_valid(name: str) -> None:
    text = yaml.safe_load(profile(name).read_text()).get("scheduler", {}).get("config")
    if text:
        load_text(text, name)


@pytest.mark.helm
class TestWithHelm:
    @pytest.mark.parametrize("path", [*POLICY_FILES, *MANIFEST_FILES], ids=lambda path: path.name)
    def test_what_is_written_from_the_chart_is_current(self, path: Any) -> None:
        made = {**POLICY_FILES, **MANIFEST_FILES}[path]()
        assert path.read_text() == made, "run: make manifests"

    @pytest.mark.parametrize("name", PROFILES)
    def test_a_profile_passes_lint_and_renders(self, name: str) -> None:
        assert "0 chart(s) failed" in helm("lint", "--strict", CHART, "--values", profile(name))
        kinds = {document["kind"] for document in documents(rendered({}, "--values", profile(name)))}
        assert "Deployment" in kinds

    @pytest.mark.parametrize(
        ("values", "key", "allowed"),
        [
            ({"extender": {"nodePolicy": "tight"}}, "extender/nodePolicy", "'binpack', 'spread'"),
            ({"extender": {"replicas": 0}}, "extender/replicas", "minimum"),
            ({"extender": {"replicas": "two"}}, "extender/replicas", "want integer"),
            ({"extender": {"schedulerName": "Not/One"}}, "extender/schedulerName", "does not match pattern"),
            ({"extender": {"gpuPolicy": "wide"}}, "extender/gpuPolicy", "binpack|spread|mutex|numa|topology-aware"),
            ({"sheduler": {"enabled": True}}, "", "additional properties 'sheduler' not allowed"),
            ({"scheduler": {"enable": True}}, "scheduler", "additional properties 'enable' not allowed"),
            ({"webhook": {"failurePolicy": "Retry"}}, "webhook/failurePolicy", "'Ignore', 'Fail'"),
            ({"certificates": {"mode": "magic"}}, "certificates/mode", "'cert-manager'"),
            ({"devices": {"nvdia": {}}}, "devices", "additional properties 'nvdia' not allowed"),
            ({"image": {"digest": "latest"}}, "image/digest", "sha256"),
            ({"metrics": {"authorize": "maybe"}}, "metrics/authorize", "want boolean"),
        ],
        ids=str,
    )
    def test_a_wrong_value_names_the_key_and_what_is_allowed(self, values: Any, key: str, allowed: str) -> None:
        with pytest.raises(HelmError) as error:
            rendered(values)
        assert f"at '/{key}'" in str(error.value) or not key
        assert allowed in str(error.value)

    def test_two_servers_for_one_scheduler_name_are_refused(self) -> None:
        with pytest.raises(HelmError, match="both same: pods name one scheduler, so give them different names"):
            rendered({"extender": {"schedulerName": "same"}, "scheduler": {"enabled": True, "schedulerName": "same"}})

    def test_authorized_metrics_need_a_certificate(self) -> None:
        with pytest.raises(HelmError, match=r"scheduler\.certificateSecret names no Secret"):
            rendered({"scheduler": {"enabled": True}, "metrics": {"authorize": True}})

    @pytest.mark.parametrize(
        "changed", [{}, {"nvidia": {"overwriteEnv": True}}, {"nvidia": {"gpuCorePolicy": "force"}}], ids=str
    )
    def test_kube_scheduler_and_the_webhook_follow_the_device_configuration(self, changed: Any) -> None:
        devices: dict[str, Any] = {**dict.fromkeys(sections()), **yaml.safe_load(FULL)}
        for name, more in changed.items():
            devices[name] = {**devices[name], **more}
        made = {(one["kind"], one["metadata"]["name"]): one for one in documents(rendered({"devices": devices}))}
        vendors = load_devices(made["ConfigMap", "tonnage-devices"]["data"]["device-config.yaml"], "values").vendors
        text = made["ConfigMap", "tonnage-kube-scheduler"]["data"]["config.yaml"]
        (extender,) = yaml.safe_load(text)["extenders"]
        assert [one["name"] for one in extender["managedResources"]] == sorted(device_resources(vendors))
        assert made["MutatingWebhookConfiguration", "tonnage-webhook"] == webhook_configuration(vendors)
