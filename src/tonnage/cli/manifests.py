"""`tonnage manifests`: the manifests of an installation that depend on its configuration."""

import re
from typing import Any

import click

from tonnage.cli.group import SuggestingGroup
from tonnage.cli.inputs import device_config_file, device_vendors
from tonnage.cli.output import JSON, YAML, document, output_option
from tonnage.policies.catalog import FILES

_ABOUT_WEBHOOK = """\
# New pods with devices are given to the scheduler. If nobody answers, pods are created as they are: docs/webhook.md.
# Printed by `tonnage manifests webhook`; print it again when the device configuration names other resources.
# The chart in deploy/chart makes the same from its values, with the certificate's authority: docs/install.md.
"""
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_EPILOG = "\n".join(
    (
        "\b\nFiles:",
        *(f"  {file.name:<17} {file.summary}" for file in FILES),
        "\n\b\nExamples:",
        "  tonnage manifests policies | kubectl apply -f -",
        "  tonnage manifests policies --enforce reserved-keys | kubectl apply -f -",
    )
)


def _valid_name(ctx: click.Context, parameter: click.Parameter, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise click.BadParameter(f"{name!r} is not a name in Kubernetes: lower-case letters, digits, - and .")
    return name


def _valid_user(ctx: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """The writers are kept one per line, without blanks around them."""
    if name is not None and (not name or name != name.strip() or "\n" in name):
        raise click.BadParameter(f"{name!r} is empty, has blanks around it or several lines")
    return name


def _valid_users(ctx: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        _valid_user(ctx, parameter, name)
    return names


@click.group("manifests", cls=SuggestingGroup)
def command() -> None:
    """Print the manifests of an installation that depend on its configuration."""


@command.command("webhook")
@device_config_file
@output_option(YAML, JSON)
def webhook(device_config_file: str | None, output: str) -> None:
    """Print the MutatingWebhookConfiguration of the extender's webhook.

    Its matchConditions are generated from the device configuration, so that the API server asks only about pods that
    the webhook may change or deny. They are left out if the webhook changes every pod: where `overwriteEnv` is on, or
    NVIDIA's `gpuCorePolicy` is not the default.
    """
    from tonnage.extender.webhook.configuration import webhook_configuration
    from tonnage.manifests.output import as_yaml

    manifest = webhook_configuration(device_vendors(device_config_file))
    _print(output, _ABOUT_WEBHOOK + as_yaml([manifest]), manifest)


@command.command("policies", epilog=_EPILOG)
@click.argument("files", nargs=-1, type=click.Choice([file.name for file in FILES]), metavar="[FILE]...")
@device_config_file
@click.option("--enforce", is_flag=True, help="Refuse (Deny) what is otherwise only warned about (Warn, Audit).")
@click.option(
    "--namespace",
    metavar="NAME",
    default="tonnage",
    callback=_valid_name,
    show_default=True,
    help="Of Tonnage's accounts and of the writers.",
)
@click.option(
    "--extender-account", default="tonnage-extender", callback=_valid_name, show_default=True, help="A service account."
)
@click.option(
    "--scheduler-account",
    default="tonnage-scheduler",
    callback=_valid_name,
    show_default=True,
    help="A service account.",
)
@click.option("--agent-user", metavar="NAME", callback=_valid_user, help="The user that the agents are.")
@click.option(
    "--user",
    "users",
    multiple=True,
    callback=_valid_users,
    help="A user that writes reserved keys, such as system:serviceaccount:NAMESPACE:NAME of a vendor's device plugin. "
    "May be repeated; replaces HAMi's in kube-system.",
)
@click.option("--group", "groups", multiple=True, callback=_valid_users, help="A group of such users. May be repeated.")
@output_option(YAML, JSON)
def policies(
    files: tuple[str, ...],
    device_config_file: str | None,
    enforce: bool,
    namespace: str,
    extender_account: str,
    scheduler_account: str,
    agent_user: str | None,
    users: tuple[str, ...],
    groups: tuple[str, ...],
    output: str,
) -> None:
    """Print admission policies (Kubernetes 1.30 or later): all that the chart installs, or the given files of it.

    They reserve the annotations and labels of schedulers and device plugins, which depend on the device configuration.
    The file queues must be asked for.
    """
    from tonnage.policies.options import AGENT_USER, HAMI_USERS, PolicyOptions

    options = PolicyOptions(
        vendors=tuple(device_vendors(device_config_file)),
        namespace=namespace,
        extender_account=extender_account,
        scheduler_account=scheduler_account,
        agent_user=agent_user or AGENT_USER,
        users=users or HAMI_USERS,
        groups=groups,
        enforce=enforce,
    )
    wanted = [file for file in FILES if (file.name in files if files else not file.is_optional)]
    items = [item for file in wanted for item in file.documents(options)]
    text = "---\n".join(file.text(options) for file in wanted)
    _print(output, text, {"apiVersion": "v1", "kind": "List", "items": items})


def _print(output: str, text: str, manifest: dict[str, Any]) -> None:
    """Print the commented text, or the same as one object in JSON."""
    click.echo(document(manifest, output) if output == JSON else text, nl=False)
