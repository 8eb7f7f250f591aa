"""What is written from the chart and for it: `make manifests` writes it, and tests compare it.

The chart is the one source of manifests. Admission policies are expressions that the code makes, so the chart gets
their files from there, with placeholders for what a release decides.
"""

import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.paths import ROOT
from tests.waiting import PATIENCE
from tonnage.devices.catalog import default_vendors
from tonnage.extender.webhook.admission import device_resources
from tonnage.kube.cel import names_resource
from tonnage.lab import parts
from tonnage.policies.catalog import FILES, PolicyFile
from tonnage.policies.options import PolicyOptions

CHART, MANIFESTS = ROOT / "deploy" / "chart", ROOT / "deploy" / "manifests"
POLICIES = CHART / "files" / "policies"
PROFILES = sorted(path.stem for path in (CHART / "profiles").glob("*.yaml"))
NAMESPACE = "tonnage"
_NOTHING = {"extender": {"enabled": False}, "viewer": {"create": False}}
_OWN_NAMESPACE = {"namespace": {"create": True}, "viewer": {"create": False}}
_NOTE = "# Rendered from deploy/chart by `make manifests`: change the chart, not this file.\n"

Values = Mapping[str, Any]


class HelmError(Exception):
    """Helm refused; the message is what it said."""


def helm(*arguments: object, values: Values | None = None, kubeconfig: Path | None = None) -> str:
    """What Helm prints; the values come on top of those that arguments name."""
    given = ("--values", "-") if values is not None else ()
    command = [parts.find(parts.CHART) / "helm", *arguments, *given]
    if kubeconfig is not None:
        command += ["--kubeconfig", kubeconfig]
    done = subprocess.run(
        [str(word) for word in command],
        input=yaml.safe_dump(dict(values or {})),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode:
        raise HelmError(done.stderr)
    return done.stdout


def rendered(values: Values, *arguments: object) -> str:
    """The manifests of a release with these values."""
    place = ("--namespace", NAMESPACE, "--kube-version", parts.control_plane().version)
    return helm("template", "tonnage", CHART, *place, *arguments, values=values)


def profile(name: str) -> Path:
    return CHART / "profiles" / f"{name}.yaml"


def documents(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


def policy_text(file: PolicyFile) -> str:
    """A file of policies with the placeholders that `templates/policies.yaml` fills."""
    options = PolicyOptions(
        vendors=tuple(default_vendors()),
        namespace="NAMESPACE-OF-SERVERS",
        agent_user="system:serviceaccount:NAMESPACE-OF-AGENTS:tonnage-agent",
    )
    named, placeholder = names_resource(sorted(device_resources(options.vendors))), names_resource(["DEVICE-RESOURCES"])

    def made(given: PolicyOptions) -> list[dict[str, Any]]:
        return [_replaced(one, named, placeholder) for one in file.documents(given)]

    return file._replace(documents=made).text(options)


def _replaced(thing: Any, old: str, new: str) -> Any:
    """A document with a text replaced wherever it stands."""
    if isinstance(thing, dict):
        return {key: _replaced(value, old, new) for key, value in thing.items()}
    if isinstance(thing, list):
        return [_replaced(value, old, new) for value in thing]
    return thing.replace(old, new) if isinstance(thing, str) else thing


def _only(values: Values, *templates: str) -> str:
    shown = [word for template in templates for word in ("--show-only", f"templates/{template}.yaml")]
    return _NOTE + rendered(values, *shown)


POLICY_FILES: dict[Path, Callable[[], str]] = {
    POLICIES / f"{file.name}.yaml": partial(policy_text, file) for file in FILES
}
_SCHEDULER = {**_OWN_NAMESPACE, "extender": {"enabled": False}, "scheduler": {"enabled": True}}
_AUTHORIZED = {"metrics": {"authorize": True}, "scheduler": {"enabled": True, "certificateSecret": "tonnage-tls"}}
MANIFEST_FILES: dict[Path, Callable[[], str]] = {
    MANIFESTS / "extender.yaml": lambda: _NOTE + rendered(_OWN_NAMESPACE),
    MANIFESTS / "scheduler.yaml": lambda: _NOTE + rendered(_SCHEDULER),
    MANIFESTS / "agent.yaml": lambda: _NOTE + rendered({**_NOTHING, "agent": {"enabled": True}}),
    MANIFESTS / "policies.yaml": lambda: _NOTE + rendered({**_NOTHING, "policies": {"enabled": True}}),
    MANIFESTS / "viewer.yaml": lambda: _NOTE + rendered({"extender": {"enabled": False}}),
    MANIFESTS / "optional/invented-cards.yaml": lambda: _only({"agent": {"invented": True}}, "agent"),
    MANIFESTS / "optional/metrics-authorization.yaml": lambda: _only(_AUTHORIZED, "monitoring"),
    MANIFESTS / "optional/queues.yaml": lambda: _NOTE + rendered({**_NOTHING, "policies": {"queues": True}}),
}


def main() -> None:
    for path, make in {**POLICY_FILES, **MANIFEST_FILES}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make())


if __name__ == "__main__":
    main()
