"""Answers to the kubelet: the environment, mounts, device files and CDI names that HAMi's plugin gives, too.

HAMi-core in the container numbers cards in PCI order, so the limits are numbered in the order of NVML's indexes. The
name of the shared region follows from pod and container: asked again, a running container gets the same answer.
"""

from collections.abc import Mapping, Sequence
from uuid import NAMESPACE_OID, uuid5

import msgspec

from tonnage.agent.core.cards import Card
from tonnage.agent.core.nodepod import NodeContainer, NodePod
from tonnage.agent.core.nodesettings import (
    BY_INDEX,
    CDI_ANNOTATIONS,
    CDI_CRI,
    ENVVAR,
    VOLUME_MOUNTS,
    AnswerSettings,
    CardSettings,
)
from tonnage.agent.kubelet.messages import CdiDevice, ContainerResponse, DeviceSpec, Mount
from tonnage.devices.base import DeviceUse

_DEVICE_FOLDER = "/var/run/nvidia-container-devices"
_USUAL_HOOK = "/usr/local"


class HostFiles(msgspec.Struct, frozen=True):
    """What there is on the node, as found when the agent started."""

    library: str
    """The path of HAMi-core's library."""
    has_license: bool = False
    control_files: tuple[str, ...] = ()
    """Device files that belong to no card, such as /dev/nvidiactl."""


def folder_name(pod: NodePod, container: NodeContainer) -> str:
    """The name of a container's folder on the node."""
    return f"{pod.uid}_{container.name}"


def container_response(
    pod: NodePod,
    container: NodeContainer,
    cards: Mapping[str, Card],
    settings: tuple[AnswerSettings, CardSettings],
    files: HostFiles,
) -> ContainerResponse:
    """The answer to the kubelet about one container."""
    answers = settings[0]
    uses = sorted(container.uses, key=lambda use: cards[use.uuid].device.index)
    chosen = [cards[use.uuid] for use in uses]
    instances = [card.instance_at(use.placement) for use, card in zip(uses, chosen, strict=True) if use.placement]
    is_cut = bool(instances)
    names = [one.uuid for one in instances if one is not None] if is_cut else _names(chosen, answers)
    # An instance is limited by its size: HAMi-core has nothing to do there.
    limits = {} if is_cut else _limit_envs(pod, container, uses, settings)
    core_mounts = () if is_cut else _core_mounts(pod, container, answers, files)
    cdi = tuple(f"{answers.cdi_kind}={name}" for name in names)
    return ContainerResponse(
        envs={**_device_envs(names, answers), **limits, **answers.switches},
        mounts=(*core_mounts, *_device_mounts(names, answers)),
        devices=_device_files([] if is_cut else chosen, answers, files) if answers.passes_device_files else (),
        annotations=_cdi_annotations(pod, container, cdi, answers),
        cdi_devices=tuple(CdiDevice(name) for name in cdi) if CDI_CRI in answers.strategies else (),
    )


def _names(cards: Sequence[Card], settings: AnswerSettings) -> list[str]:
    by_index = settings.id_strategy == BY_INDEX
    return list(dict.fromkeys(str(card.device.index) if by_index else card.uuid for card in cards))


def _device_envs(names: Sequence[str], settings: AnswerSettings) -> dict[str, str]:
    if ENVVAR in settings.strategies:
        return {"NVIDIA_VISIBLE_DEVICES": ",".join(names)}
    if VOLUME_MOUNTS in settings.strategies:
        return {"NVIDIA_VISIBLE_DEVICES": _DEVICE_FOLDER}
    return {}


def _limit_envs(
    pod: NodePod, container: NodeContainer, uses: Sequence[DeviceUse], settings: tuple[AnswerSettings, CardSettings]
) -> dict[str, str]:
    answers, cards = settings
    vgpu = f"{answers.hook}/vgpu"
    region = uuid5(NAMESPACE_OID, folder_name(pod, container))
    envs = {f"CUDA_DEVICE_MEMORY_LIMIT_{place}": f"{use.memory}m" for place, use in enumerate(uses)}
    envs["CUDA_DEVICE_SM_LIMIT"] = str(uses[0].cores)
    envs["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = f"{vgpu}/{region}.cache"
    if cards.memory_scaling > 1:
        envs["CUDA_OVERSUBSCRIBE"] = "true"
    if cards.log_level:
        envs["LIBCUDA_LOG_LEVEL"] = cards.log_level
    if cards.disable_core_limit:
        envs["GPU_CORE_UTILIZATION_POLICY"] = "disable"
    if answers.hook != _USUAL_HOOK:
        # HAMi-core opens its own library there unless it is told otherwise.
        envs["CUDA_REDIRECT"] = f"{vgpu}/libvgpu.so"
    return envs


def _core_mounts(
    pod: NodePod, container: NodeContainer, settings: AnswerSettings, files: HostFiles
) -> tuple[Mount, ...]:
    vgpu = f"{settings.hook}/vgpu"
    mounts = [
        Mount(f"{vgpu}/libvgpu.so", files.library, read_only=True),
        Mount(vgpu, f"{vgpu}/containers/{folder_name(pod, container)}"),
        Mount(settings.lock_folder, settings.lock_folder),
    ]
    if not container.is_uncontrolled:
        mounts.append(Mount("/etc/ld.so.preload", f"{vgpu}/ld.so.preload", read_only=True))
    if files.has_license:
        mounts.append(Mount("/tmp/license", f"{vgpu}/license", read_only=True))
        mounts.append(Mount("/usr/bin/vgpuvalidator", f"{vgpu}/vgpuvalidator", read_only=True))
    return tuple(mounts)


def _device_mounts(names: Sequence[str], settings: AnswerSettings) -> tuple[Mount, ...]:
    if VOLUME_MOUNTS not in settings.strategies:
        return ()
    return tuple(Mount(f"{_DEVICE_FOLDER}/{name}", "/dev/null") for name in names)


def _device_files(cards: Sequence[Card], settings: AnswerSettings, files: HostFiles) -> tuple[DeviceSpec, ...]:
    root = settings.driver_root.rstrip("/")
    paths = [*files.control_files, *(f"/dev/nvidia{card.minor}" for card in cards)]
    return tuple(DeviceSpec(path, f"{root}{path}", "rw") for path in paths)


def _cdi_annotations(
    pod: NodePod, container: NodeContainer, names: Sequence[str], settings: AnswerSettings
) -> dict[str, str]:
    if CDI_ANNOTATIONS not in settings.strategies:
        return {}
    key = uuid5(NAMESPACE_OID, f"cdi {folder_name(pod, container)}")
    return {f"{settings.cdi_annotation_prefix}nvidia-device-plugin_{key}": ",".join(names)}
