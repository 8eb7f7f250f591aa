"""`tonnage agent`: the part on each GPU node, in place of HAMi's device plugin and monitor."""

import asyncio
import logging
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.inputs import BadInput, device_config_file
from tonnage.cli.startup import importing
from tonnage.server.flags import parsed, switch

if TYPE_CHECKING:
    from tonnage.agent.core.nodesettings import AnswerSettings, CardSettings
    from tonnage.agent.monitor.monitor import MonitorSettings
    from tonnage.agent.nvml.source import CardSource
    from tonnage.agent.service import AgentPaths
    from tonnage.devices.nvidia import Nvidia
    from tonnage.server.flagvalues import Address

log = logging.getLogger(__name__)

_EXTRA = ("grpclib", "pynvml")
"""Modules that only the agent needs."""


@click.command(name="agent")
@click.option("--node-name", metavar="NAME", envvar="NODE_NAME", required=True, help="The node; else $NODE_NAME.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="How to reach the cluster; else $KUBECONFIG, the pod's service account, or ~/.kube/config.",
)
@click.option("--context", metavar="NAME", help="The context in the kubeconfig file; by default its current one.")
@device_config_file
@click.option("--node-config-file", metavar="FILE", default="", help="HAMi's settings of single nodes, JSON.")
@click.option("--fake", metavar="FILE", help="Invented cards from a YAML file instead of NVML, for trials.")
@click.option("--nvml-library", metavar="FILE", default="", help="NVML in place of what the loader finds.")
@click.option(
    "--hook-path", metavar="FOLDER", envvar="HOOK_PATH", default="/usr/local", show_default=True,
    help="The folder that holds HAMi-core's vgpu/libvgpu.so, on the node and in containers.",
)  # fmt: skip
@click.option(
    "--library", metavar="FILE", help="HAMi-core's libvgpu.so, to be installed there; by default one is there already."
)
@click.option(
    "--device-list-strategy", metavar="NAME,...", envvar="DEVICE_LIST_STRATEGY", default="envvar", show_default=True,
    help="How containers learn of their cards: envvar, volume-mounts, cdi-annotations, cdi-cri.",
)  # fmt: skip
@click.option(
    "--device-id-strategy", type=click.Choice(["uuid", "index"]), envvar="DEVICE_ID_STRATEGY", default="uuid",
    show_default=True, help="By what containers know their cards.",
)  # fmt: skip
@switch("--pass-device-specs", False, "Whether containers get the cards' device files.")
@switch("--only-warn", False, "Whether pods that exceed a card are served all the same, with a warning.")
@click.option(
    "--device-plugins-folder", metavar="FOLDER", default="/var/lib/kubelet/device-plugins", show_default=True,
    help="The kubelet's folder of device plugins.",
)  # fmt: skip
@click.option(
    "--pod-resources-socket", metavar="FILE", default="/var/lib/kubelet/pod-resources/kubelet.sock",
    show_default=True, help="The kubelet's socket that lists pods.",
)  # fmt: skip
@click.option("--host-root", metavar="FOLDER", default="/", show_default=True, help="Where the node's root is mounted.")
@click.option(
    "--metrics-bind-address", metavar="HOST:PORT", callback=parsed("address"), default=":9394", show_default=True,
    help="Where to answer /metrics, /healthz, /livez and /readyz.",
)  # fmt: skip
@switch("--legacy-metrics", False, "Whether metrics have their names before HAMi 2.9, too.")
def command(
    node_name: str,
    kubeconfig: str | None,
    context: str | None,
    device_config_file: str | None,
    node_config_file: str,
    fake: str | None,
    nvml_library: str,
    library: str | None,
    hook_path: str,
    device_list_strategy: str,
    device_id_strategy: str,
    pass_device_specs: bool,
    only_warn: bool,
    device_plugins_folder: str,
    pod_resources_socket: str,
    host_root: str,
    metrics_bind_address: "Address",
    legacy_metrics: bool,
) -> None:
    """Serve the cards of this node to the kubelet and register them for schedulers.

    Every container gets exactly the devices, memory and cores that a scheduler wrote into its pod's annotations, or
    nothing and a sentence that says why. Works until it is told to stop (SIGTERM or Ctrl-C).
    """
    for needed in _EXTRA:
        if find_spec(needed) is None:
            raise click.ClickException(f"{needed} is missing; pip install 'tonnage[agent]' brings it")
    with importing():
        from tonnage.agent.core.nodesettings import AnswerSettings
        from tonnage.agent.monitor.monitor import MonitorSettings
        from tonnage.agent.nodeconfig import NodeConfigError, card_settings
        from tonnage.agent.nvml.fake import FakeFileError
        from tonnage.agent.service import AgentPaths
        from tonnage.kube.errors import KubeError
        from tonnage.observability.logs import log_to_stderr

    log_to_stderr()
    try:
        vendor = _vendor(device_config_file)
        cards = card_settings(vendor.node_keys, node_config_file, node_name)
        source = _source(fake, node_name, nvml_library)
    except (NodeConfigError, FakeFileError) as error:
        raise BadInput(str(error)) from error
    answers = AnswerSettings(
        hook=hook_path.rstrip("/"),
        strategies=_strategies(device_list_strategy),
        id_strategy=device_id_strategy,
        passes_device_files=pass_device_specs,
    )
    installed = Path(library) if library else None
    paths = AgentPaths(Path(device_plugins_folder), Path(pod_resources_socket), Path(host_root), installed)
    monitoring = MonitorSettings(metrics_bind_address, legacy_metrics)
    access = (kubeconfig, context)
    try:
        asyncio.run(_serve(node_name, access, vendor, source, paths, (answers, cards), monitoring, only_warn))
    except KubeError as error:
        raise click.ClickException(str(error)) from error


def _strategies(text: str) -> tuple[str, ...]:
    from tonnage.agent.core.nodesettings import STRATEGIES

    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in names if name not in STRATEGIES]
    if unknown or not names:
        raise click.BadParameter(f"{', '.join(unknown) or 'nothing'} is none of {', '.join(STRATEGIES)}")
    return names


def _vendor(file: str | None) -> "Nvidia":
    from tonnage.cli.inputs import device_vendors
    from tonnage.devices.nvidia import Nvidia

    found = next((vendor for vendor in device_vendors(file) if isinstance(vendor, Nvidia)), None)
    if found is None:
        raise BadInput(f"{file}: nvidia: the section is missing; this agent serves NVIDIA's cards")
    return found


def _source(fake: str | None, node: str, library: str) -> "CardSource":
    if fake is None:
        from tonnage.agent.nvml.library import Nvml

        return Nvml(library)
    from tonnage.agent.nvml.fake import FakeCards, has_driver

    if library:
        raise click.UsageError("--fake or --nvml-library, not both: cards are invented or found")
    if has_driver():
        raise BadInput("--fake: this machine has an NVML library; invented cards are for nodes without GPUs")
    log.warning("the cards of this node are invented: %s", fake)
    return FakeCards(fake, node)


async def _serve(
    node: str,
    access: tuple[str | None, str | None],
    vendor: "Nvidia",
    source: "CardSource",
    paths: "AgentPaths",
    settings: "tuple[AnswerSettings, CardSettings]",
    monitoring: "MonitorSettings",
    only_warns: bool,
) -> None:
    from tonnage import __version__
    from tonnage.agent.core.agentcore import AgentCore
    from tonnage.agent.core.registration import NodeRegistration
    from tonnage.agent.service import AgentService
    from tonnage.kube.client import connect

    client = await connect(*access)
    boot = Path("/proc/sys/kernel/random/boot_id")
    version = f"{__version__},{boot.read_text().strip() if boot.exists() else ''}"
    registration = NodeRegistration(version, is_invented=source.is_invented)
    core = AgentCore(vendor, registration.annotations, labels=registration.labels, only_warns=only_warns)
    service = AgentService(
        core,
        client,
        source,
        node=node,
        resource=vendor.count_resource,
        paths=paths,
        settings=settings,
        monitoring=monitoring,
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await service.run(stop.wait())
    finally:
        await client.close()
