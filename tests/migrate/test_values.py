"""`tonnage migrate values`: HAMi's chart values as ours."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import tonnage
from tests.paths import ROOT
from tonnage.migrate.values import _FLAGS, _SAME, translated

HAMI = """
schedulerName: gpu-scheduler
resourceName: example.com/gpu
scheduler:
  replicas: 3
  kubeQPS: 100
  overwriteEnv: "true"
  defaultSchedulerPolicy: {nodeSchedulerPolicy: spread}
  extender: {resources: {limits: {memory: 2Gi}}}
  certManager: {enabled: true}
  livenessProbe: true
  leaderElekt: true
devicePlugin: {deviceSplitCount: 4}
nothing: {}
device-config:
  content: |
    nvidia:
      resourceCountName: example.com/gpu
      resourceMemoryName: example.com/gpumem
      defaultMemory: 1000
frobnicate: 1
"""


def test_what_means_the_same_is_carried_over_and_the_rest_named_with_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "hami-values.yaml"
    file.write_text(HAMI)
    done = tonnage("migrate", "values", str(file))
    assert done.returncode == 0, done.stderr
    made = yaml.safe_load(done.stdout)
    assert made == {
        "extender": {
            "schedulerName": "gpu-scheduler",
            "replicas": 3,
            "extraArgs": ["--kube-qps=100"],
            "nodePolicy": "spread",
            "resources": {"limits": {"memory": "2Gi"}},
        },
        "devices": {
            "nvidia": {
                "resourceCountName": "example.com/gpu",
                "overwriteEnv": True,
                "defaultMemory": 1000,
                "resourceMemoryName": "example.com/gpumem",
            }
        },
        "certificates": {"mode": "cert-manager"},
    }
    for line in (
        "# scheduler.livenessProbe: the probe is always there",
        "# devicePlugin.deviceSplitCount: HAMi's device plugin stays as it is",
        "# frobnicate: HAMi's chart has no such key",
        "# scheduler.leaderElekt: our chart has nothing of that meaning",
    ):
        assert line in done.stdout


def test_every_key_that_is_carried_over_is_one_of_our_charts() -> None:
    ours: dict[str, Any] = yaml.safe_load((ROOT / "deploy/chart/values.yaml").read_text())
    for path in (*_SAME.values(), "extender.extraArgs", "certificates.mode", "devices.nvidia.overwriteEnv"):
        place: Any = ours
        for name in path.split("."):
            assert name in place, path
            place = place[name]
    assert not set(_SAME) & set(_FLAGS)


def test_a_device_configuration_that_is_not_valid_is_left_out_with_the_place() -> None:
    found = translated({"device-config": {"content": "nvidia: [1]\n"}})
    assert found.values == {}
    ((key, reason),) = found.left_out
    assert key == "device-config.content"
    assert "it is not valid: device-config.content:1:" in reason


@pytest.mark.parametrize(("text", "said"), [("a: [", "this is no YAML"), ("- 1\n", "expected a mapping of values")])
def test_a_file_that_is_none(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(text)
    done = tonnage("migrate", "values", str(file))
    assert done.returncode == 2
    assert said in done.stderr
