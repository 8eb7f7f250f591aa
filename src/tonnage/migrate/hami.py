"""HAMi's scheduler: its flags are read as the extender's own, its device configuration as the device configuration."""

import click

from tonnage.config.defaults import with_flags
from tonnage.config.deviceconfig import load_devices
from tonnage.config.notes import ConfigError
from tonnage.devices.base import Vendor
from tonnage.devices.catalog import default_vendors
from tonnage.extender.flags import extender_options
from tonnage.extender.options import ExtenderOptions
from tonnage.migrate.peer import CHART, UNINSTALL, Installation, PeerScheduler, named, started, stopped
from tonnage.migrate.peerobjects import PeerContainer, PeerDeployment, PeerObjects
from tonnage.plugins.defaults import default_plugins

_CONTAINER, _PROGRAM = "vgpu-scheduler-extender", "hami"
_NAME = "hami-scheduler"
_ACTIONS = ("allocate",)


def is_hami(container: PeerContainer) -> bool:
    """Whether it is HAMi's extender: by the name that its chart gives, or its image and program."""
    return container.name == _CONTAINER or (
        container.program == _PROGRAM and any(word.rpartition("/")[2] == "scheduler" for word in container.words)
    )


def examine(objects: PeerObjects) -> Installation:
    """What runs, or HAMi's defaults if it was not found."""
    running = objects.running(is_hami)
    if running is None:
        objects.problems.append(
            "HAMi's scheduler was not found (a Deployment with a container vgpu-scheduler-extender); its defaults are "
            "assumed. Give it with -f, or look at the cluster that has it"
        )
        return _installation("HAMi with its defaults", ExtenderOptions(), default_vendors(), [], None)
    deployment, container = running
    options, unsupported = _options(container.words)
    vendors, warnings = _vendors(objects, deployment, options)
    found = named(deployment, container, "HAMi")
    return _installation(found, options, vendors, [*unsupported, *warnings], deployment)


def _installation(
    found: str,
    options: ExtenderOptions,
    vendors: "tuple[Vendor, ...]",
    unsupported: list[str],
    deployment: PeerDeployment | None,
) -> Installation:
    scheduler = options.scheduler_name or _NAME
    node_policy, gpu_policy = options.node_scheduler_policy or "binpack", options.gpu_scheduler_policy or "spread"
    plugins = with_flags(default_plugins(), options.node_scheduler_policy, options.gpu_scheduler_policy, None)
    same = [
        f"pods keep schedulerName {scheduler}; manifests and requests stay as they are",
        f"policies: nodes {node_policy}, cards {gpu_policy}, and the pods' own annotations before them",
        f"devices: {', '.join(dict.fromkeys(vendor.name for vendor in vendors))}, with their resource names",
        "device plugins and monitors stay: registrations, handshakes, locks and devices of pods have HAMi's format",
    ]
    namespace = deployment.namespace if deployment else "kube-system"
    name = deployment.name if deployment else "hami-scheduler"
    release = name.removesuffix("-scheduler")
    webhook = f"{release}-webhook"
    move = [
        f"helm get values {release} -n {namespace} -o yaml > hami-values.yaml",
        "tonnage migrate values hami-values.yaml > values.yaml",
        f"kubectl get mutatingwebhookconfiguration {webhook} -o yaml > hami-webhook.yaml",
        f"# Until Tonnage runs, no webhook gives new GPU pods the name {scheduler}: create none in between.",
        "# Those that wait already go on waiting; running ones are not touched.",
        stopped(deployment) if deployment else f"kubectl -n {namespace} scale deployment {name} --replicas=0",
        f"{CHART} -f deploy/chart/profiles/hami.yaml -f values.yaml",
        f"kubectl delete mutatingwebhookconfiguration {webhook}",
        "# Those that waited are placed now.",
    ]
    back = [
        UNINSTALL,
        started(deployment) if deployment else f"kubectl -n {namespace} scale deployment {name} --replicas=1",
        "kubectl create -f hami-webhook.yaml",
    ]
    return Installation(found, (scheduler,), vendors, plugins, _ACTIONS, same, unsupported, move, back)


def _options(words: list[str]) -> tuple[ExtenderOptions, list[str]]:
    """The extender's options by these flags, and what is not supported among them."""
    given = [word for word in words if word.startswith("-")]
    # Values may be words of their own; the program and what comes before it are none.
    start = next((number for number, word in enumerate(words) if word.startswith("-")), len(words))
    left, unsupported = words[start:], list[str]()
    while True:
        try:
            options = _parsed(left)
            break
        except click.UsageError as error:
            wrong = next((word for word in left if word.startswith("-") and _flag(word) in error.message), None)
            if wrong is None:
                return ExtenderOptions(), [f"{' '.join(given)}: {error.message}"]
            unsupported.append(f"{_flag(wrong)}: {error.message}")
            left = [word for word in left if word != wrong]
    return options, [*unsupported, *options.warnings]


def _flag(word: str) -> str:
    return word.partition("=")[0]


def _parsed(words: list[str]) -> ExtenderOptions:
    found = list[ExtenderOptions]()

    @click.command(context_settings={"allow_extra_args": True})
    @extender_options
    def command(options: ExtenderOptions) -> None:
        found.append(options)

    command.main(words, prog_name=_PROGRAM, standalone_mode=False)
    return found[0]


def _vendors(
    objects: PeerObjects, deployment: PeerDeployment, options: ExtenderOptions
) -> "tuple[tuple[Vendor, ...], list[str]]":
    """The vendors of the device configuration, and its warnings; the default ones if it cannot be read."""
    path = options.device_config_file
    mounted = objects.mounted(deployment, path) if path else None
    if mounted is None:
        return default_vendors(), []
    try:
        loaded = load_devices(mounted.text, mounted.source)
    except ConfigError as error:
        objects.problems.append(f"the device configuration is not valid, the default one is assumed: {error}")
        return default_vendors(), []
    return loaded.vendors, [note.shown(mounted.source) for note in loaded.warnings]


HAMI = PeerScheduler("hami", is_hami, examine)
