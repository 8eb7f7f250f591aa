"""The pods, accounts and network rules of `deploy/manifests`, as far as they can be read off the files."""

import click
import pytest

from tests.e2e.deployment import account_of, containers_of, objects

EVERY = [(server, name) for server in ("extender", "scheduler") for name in containers_of(server)]
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
BUSY_SECONDS = 5
"""A process on a busy machine has answered a probe by then."""


def named(kind, server="extender"):
    return {thing["metadata"]["name"]: thing for thing in objects(server) if thing["kind"] == kind}


@pytest.mark.parametrize(("server", "name"), EVERY)
def test_every_container_is_confined_measured_and_probed(server, name):
    container = containers_of(server)[name]
    confined = container["securityContext"]
    assert confined["runAsNonRoot"]
    assert confined["readOnlyRootFilesystem"]
    assert confined["allowPrivilegeEscalation"] is False
    assert confined["capabilities"] == {"drop": ["ALL"]}
    assert confined["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {"cpu", "memory"} == container["resources"]["requests"].keys()
    assert "memory" in container["resources"]["limits"]
    ports = {port["name"] for port in container["ports"]}
    for kind in PROBES:
        probe = container[kind]
        assert probe["httpGet"]["port"] in ports
        assert probe["timeoutSeconds"] >= BUSY_SECONDS
    liveness = container["livenessProbe"]
    assert liveness["periodSeconds"] * liveness["failureThreshold"] >= 60
    assert liveness["httpGet"]["path"] == container["startupProbe"]["httpGet"]["path"] == "/livez"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


@pytest.mark.parametrize(
    ("server", "name", "account"),
    [
        ("extender", "extender", "tonnage-extender"),
        ("extender", "kube-scheduler", "tonnage-kube-scheduler"),
        ("scheduler", "scheduler", "tonnage-scheduler"),
    ],
)
def test_every_process_has_the_token_of_its_own_account(server, name, account):
    assert account_of(server, name) == account


def test_no_account_has_another_roles_than_its_own():
    bound = {}
    for server in ("extender", "scheduler"):
        for kind in ("ClusterRoleBinding", "RoleBinding"):
            for binding in named(kind, server).values():
                (subject,) = binding["subjects"]
                bound.setdefault(subject["name"], set()).add(binding["roleRef"]["name"])
    assert bound == {
        "tonnage-extender": {"tonnage-extender"},
        "tonnage-kube-scheduler": {
            *("system:kube-scheduler", "system:volume-scheduler", "tonnage-kube-scheduler"),
            "extension-apiserver-authentication-reader",
        },
        "tonnage-scheduler": {"tonnage-scheduler", "tonnage-scheduler-config", "tonnage-scheduler-lease"},
    }


def test_both_servers_agree_on_their_namespace():
    assert named("Namespace", "extender") == named("Namespace", "scheduler")
    labels = named("Namespace")["tonnage"]["metadata"]["labels"]
    assert {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "audit", "warn")} == {"restricted"}


@pytest.mark.parametrize("server", ["extender", "scheduler"])
def test_network_rules_are_about_ports_that_the_pods_have(server):
    ports = {port["name"] for container in containers_of(server).values() for port in container["ports"]}
    (deployment,), (policy,) = named("Deployment", server).values(), named("NetworkPolicy", server).values()
    assert policy["spec"]["podSelector"] == deployment["spec"]["selector"]
    rules = policy["spec"]["ingress"]
    assert {port["port"] for rule in rules for port in rule["ports"]} == ports
    from_anywhere = {port["port"] for rule in rules if "from" not in rule for port in rule["ports"]}
    assert from_anywhere == ({"https"} if server == "extender" else set())


@pytest.mark.parametrize("server", ["extender", "scheduler"])
def test_the_flags_are_ones_that_the_command_takes(server):
    from tonnage.cli.extender import command as extender
    from tonnage.cli.scheduler import command as scheduler

    command = {"extender": extender, "scheduler": scheduler}[server]
    name, *flags = containers_of(server)[server]["args"]
    assert name == server
    try:
        command.make_context(server, flags)
    except click.UsageError as error:
        pytest.fail(error.format_message())
