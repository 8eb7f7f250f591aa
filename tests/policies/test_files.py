"""What `tonnage manifests policies` prints, and that the deployed policies are the same."""

import json
import re
from typing import Any

import pytest
import yaml

from tests.cli.command import tonnage
from tests.config.device_texts import FULL
from tests.paths import ROOT
from tonnage.policies.catalog import FILES
from tonnage.policies.documents import ENFORCING, WATCHING

DEPLOY = ROOT / "deploy" / "manifests"
BINDING, POLICY = "ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"


def printed(*arguments: object) -> list[dict]:
    done = tonnage("manifests", "policies", *map(str, arguments))
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def deployed(name: str) -> list[dict]:
    return [thing for thing in yaml.safe_load_all((DEPLOY / f"{name}.yaml").read_text()) if thing]


def in_one_line(thing: Any) -> Any:
    """A document whose texts differ in no blanks: the chart breaks lines elsewhere."""
    if isinstance(thing, dict):
        return {key: in_one_line(value) for key, value in thing.items()}
    if isinstance(thing, list):
        return [in_one_line(value) for value in thing]
    return (
        re.sub(r"\[ | \]", lambda found: found[0].strip(), " ".join(thing.split())) if isinstance(thing, str) else thing
    )


def by_kind_and_name(things: list[dict]) -> dict[tuple[str, str], Any]:
    return {(thing["kind"], thing["metadata"]["name"]): in_one_line(thing) for thing in things}


def test_the_deployed_policies_are_what_the_command_prints() -> None:
    assert by_kind_and_name(deployed("policies")) == by_kind_and_name(printed())
    assert by_kind_and_name(deployed("optional/queues")) == by_kind_and_name(printed("queues"))


def test_without_names_everything_but_the_queues_is_printed() -> None:
    wanted = [file.name for file in FILES if not file.is_optional]
    text = tonnage("manifests", "policies").stdout
    assert text == tonnage("manifests", "policies", *wanted).stdout
    assert json.loads(tonnage("manifests", "policies", "-o", "json").stdout)["items"] == list(yaml.safe_load_all(text))


def test_every_policy_is_bound_and_enforced_on_request() -> None:
    for flags, actions in (((), WATCHING), (("--enforce",), ENFORCING)):
        documents = printed(*flags, *(file.name for file in FILES))
        bound = {thing["spec"]["policyName"]: thing["spec"] for thing in documents if thing["kind"] == BINDING}
        assert set(bound) == {thing["metadata"]["name"] for thing in documents if thing["kind"] == POLICY}
        assert all(spec["validationActions"] == actions for spec in bound.values())


def test_accounts_and_writers_are_options() -> None:
    plugin = "system:serviceaccount:vendor:plugin"
    agents = "system:serviceaccount:gpus:agents"
    flags = ("--namespace=gpus", "--extender-account=ext", "--scheduler-account=sched", "--group=system:nodes")
    writers, *others = printed(*flags, f"--user={plugin}", f"--agent-user={agents}")
    assert writers["metadata"]["namespace"] == "gpus"
    ours = ["system:serviceaccount:gpus:ext", "system:serviceaccount:gpus:sched"]
    assert writers["data"] == {"users": "\n".join([*ours, agents, plugin, ""]), "groups": "system:nodes\n"}
    assert "serviceaccount:tonnage" not in json.dumps(others)
    references = [thing["spec"]["paramRef"] for thing in others if "paramRef" in thing["spec"]]
    assert {reference["namespace"] for reference in references} == {"gpus"}


def test_keys_follow_the_device_configuration(tmp_path) -> None:
    file = tmp_path / "devices.yaml"
    file.write_text("nvidia: {resourceCountName: nvidia.com/gpu}\n")
    text = json.dumps(printed("reserved-keys", "--device-config-file", file))
    assert "hami.io/vgpu-devices-allocated" in text
    assert "hami.io/dcu-devices-allocated" not in text
    file.write_text(FULL)
    assert "hami.io/dcu-devices-allocated" in json.dumps(printed("reserved-keys", "--device-config-file", file))


def test_resources_follow_the_device_configuration(tmp_path) -> None:
    file = tmp_path / "devices.yaml"
    file.write_text("nvidia: {resourceCountName: example.com/card}\n")
    policy, _ = printed("node-names", "--device-config-file", file)
    (condition,) = (one for one in policy["spec"]["matchConditions"] if one["name"] == "requests-devices")
    names = condition["expression"].split("'")[1::2]
    assert "example.com/card" in names
    assert "gpu-fraction" in names
    assert "nvidia.com/gpu" not in names
    assert "hygon.com/dcunum" not in names


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--namespace=Not/One"], "'Not/One' is not a name in Kubernetes"),
        (["--scheduler-account="], "'' is not a name in Kubernetes"),
        (["--user= "], "' ' is empty, has blanks around it or several lines"),
        (["reserved"], "'reserved' is not one of"),
        (["--device-config-file=missing.yaml"], "missing.yaml"),
    ],
)
def test_bad_arguments_are_told(arguments: list[str], said: str) -> None:
    done = tonnage("manifests", "policies", *arguments)
    assert done.returncode == 2
    assert said in re.sub(r"\s+", " ", done.stderr)
