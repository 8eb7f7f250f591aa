"""MIG instances that were made beforehand are registered as they are and given out as decided."""

import json

from tests.agent.scenes import VENDOR, Kubelet, no_registration, pod
from tonnage.agent.core.agentcore import AgentCore
from tonnage.agent.core.answers import HostFiles, container_response
from tonnage.agent.core.cards import Card, MigInstance
from tonnage.agent.core.instructions import GiveDevices, PatchPod, Refuse
from tonnage.agent.core.nodesettings import AnswerSettings, CardSettings
from tonnage.agent.nvml.found import FoundCard, cards_of
from tonnage.devices.base import DeviceRequest, DeviceUse, MigPlacement
from tonnage.devices.nvidia import MIG_ALLOCATIONS

GPU = "GPU-00000000-0000-0000-0000-000000000000"
SMALL, LARGE = MigPlacement(0, 1), MigPlacement(4, 4)
INSTANCES = (
    MigInstance("MIG-small", "1g.5gb", 4864, SMALL, 7, 0, slices=1),
    MigInstance("MIG-large", "3g.20gb", 19968, LARGE, 2, 0, slices=3),
)


def cut_card() -> Card:
    found = FoundCard(0, GPU, "NVIDIA A100", 40960 << 20, 0, is_mig=True, instances=INSTANCES)
    [card], left = cards_of([found], CardSettings(memory_scaling=2.0))
    assert left == []
    return card


def admitted(kubelet: Kubelet, name: str, place: MigPlacement, profile: str = "1g.5gb") -> GiveDevices | Refuse:
    use = DeviceUse(GPU, 4864, 14, profile, place)
    made = pod(name, [use])
    assert made.metadata.annotations is not None
    made.metadata.annotations.update(VENDOR.extras(((use,),), None))  # type: ignore[arg-type]
    assert MIG_ALLOCATIONS in made.metadata.annotations
    [answer] = kubelet.admit(made)
    return answer


def scene() -> Kubelet:
    core = AgentCore(VENDOR, no_registration)
    core.cards_seen([cut_card()])
    return Kubelet(core)


def test_a_card_is_registered_with_the_instances_that_it_has() -> None:
    device = cut_card().device
    assert (device.mode, device.count, device.memory, device.cores) == ("mig", 2, 40960, 100)
    assert [(one.name, one.placements) for one in device.profiles] == [("1g.5gb", (SMALL,)), ("3g.20gb", (LARGE,))]
    request = DeviceRequest("NVIDIA", 1, 8000, 101, 0)
    chosen = VENDOR.instance(device, request, (), 40960, 100)
    assert chosen is not None
    assert chosen.placement == LARGE
    assert VENDOR.instance(device, request, (LARGE,), 40960, 100) is None


def test_a_container_gets_the_decided_instance_and_no_limits() -> None:
    kubelet = scene()
    answer = admitted(kubelet, "p", LARGE, "3g.20gb")
    assert isinstance(answer, GiveDevices)
    settings = (AnswerSettings(passes_device_files=True), CardSettings())
    files = HostFiles("/usr/local/vgpu/libvgpu.so", control_files=("/dev/nvidiactl",))
    said = container_response(answer.pod, answer.container, kubelet.core.cards, settings, files)
    assert said.envs == {"NVIDIA_VISIBLE_DEVICES": "MIG-large"}
    assert said.mounts == ()
    assert [one.host_path for one in said.devices] == ["/dev/nvidiactl"]


def test_the_ids_of_the_instance_are_written_beside_its_place() -> None:
    kubelet = scene()
    admitted(kubelet, "p", LARGE, "3g.20gb")
    [patch] = [one for one in kubelet.told if isinstance(one, PatchPod)]
    [entry] = json.loads(patch.annotations[MIG_ALLOCATIONS])
    assert entry == {
        "containerIndex": 0,
        "deviceIndex": 0,
        "gpuUUID": GPU,
        "profile": "3g.20gb",
        "placement": {"start": 4, "size": 4},
        "migUUID": "MIG-large",
        "gpuInstanceID": 2,
        "computeInstanceID": 0,
    }


def test_instances_are_given_once_and_only_if_they_exist() -> None:
    kubelet = scene()
    assert isinstance(admitted(kubelet, "first", SMALL), GiveDevices)
    second = admitted(kubelet, "second", SMALL)
    assert isinstance(second, Refuse)
    assert "that team/first holds" in second.message
    third = admitted(kubelet, "third", MigPlacement(2, 1))
    assert isinstance(third, Refuse)
    assert "this agent gives out instances and makes none" in third.message
    [whole] = kubelet.admit(pod("whole", [DeviceUse(GPU, 10, 1)]))
    assert isinstance(whole, Refuse)
    assert "whose mode is another one now" in whole.message


def test_a_card_in_mig_mode_without_instances_is_left_out() -> None:
    cards, [left] = cards_of([FoundCard(0, GPU, "NVIDIA A100", 40960 << 20, 0, is_mig=True)], CardSettings())
    assert cards == []
    assert "has no instances" in left.why
