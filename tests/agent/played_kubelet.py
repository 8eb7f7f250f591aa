"""A kubelet that is played over real gRPC sockets: it registers plugins, admits pods in turn and keeps a checkpoint.

It does what the real one does in the order in which it does it, without containers.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from grpclib.client import Channel, UnaryStreamMethod, UnaryUnaryMethod
from grpclib.const import Cardinality, Handler
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.server import Server

from tonnage.agent.kubelet.grpc import _Codec
from tonnage.agent.kubelet.messages import (
    AllocateRequest,
    AllocateResponse,
    ContainerIds,
    ContainerResources,
    ContainerResponse,
    DeviceList,
    DevicePluginOptions,
    Empty,
    PodResources,
    PodResourcesList,
    PreferenceQuestion,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    RegisterRequest,
)

RESOURCE = "nvidia.com/gpu"


class AdmissionError(Exception):
    """The plugin refused; the pod would be Failed with this message."""


class PlayedKubelet:
    """The kubelet's two sockets and its admission of pods."""

    def __init__(self, folder: Path) -> None:
        self.plugins = folder / "device-plugins"
        self.pod_resources = folder / "pod-resources.sock"
        self.plugins.mkdir()
        self.devices: dict[str, str] = {}
        """CardHealth by id, as the plugin last said."""
        self.registrations = 0
        self.calls: list[str] = []
        self._held: dict[tuple[str, str], list[str]] = {}
        self._pods: dict[str, tuple[str, str]] = {}
        self._servers: list[Server] = []
        self._channel: Channel | None = None
        self._watching: asyncio.Task[None] | None = None
        self.changed = asyncio.Event()

    # -- life

    async def start(self) -> None:
        for path, mapping in (
            (
                self.plugins / "kubelet.sock",
                {"/v1beta1.Registration/Register": (self._register, RegisterRequest, Empty)},
            ),
            (self.pod_resources, {"/v1.PodResourcesLister/List": (self._list, Empty, PodResourcesList)}),
        ):
            path.unlink(missing_ok=True)
            server = Server([_Service(mapping)], codec=_Codec())
            await server.start(path=str(path))
            self._servers.append(server)

    async def stop(self) -> None:
        """As a kubelet that ends: sockets closed, plugins hung up on."""
        self._hang_up()
        for server in self._servers:
            server.close()
            await server.wait_closed()
        self._servers = []
        self.devices = {}

    async def restart(self) -> None:
        """As a kubelet that starts again: every socket in the folder is removed."""
        await self.stop()
        for path in self.plugins.glob("*.sock"):
            path.unlink()
        await self.start()

    def _hang_up(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    # -- what plugins call

    async def _register(self, stream: Any) -> None:
        request = await stream.recv_message()
        assert request.resource_name == RESOURCE
        self._hang_up()
        self._channel = Channel(path=str(self.plugins / request.endpoint), codec=_Codec())
        options = await self._call("GetDevicePluginOptions", Empty(), DevicePluginOptions)
        assert options.get_preferred_allocation_available
        self.registrations += 1
        self._watching = asyncio.create_task(self._watch(self._channel))
        await stream.send_message(Empty())

    async def _watch(self, channel: Channel) -> None:
        method: UnaryStreamMethod[Any, Any] = UnaryStreamMethod(
            channel, "/v1beta1.DevicePlugin/ListAndWatch", Empty, DeviceList
        )
        try:
            async with method.open() as stream:
                await stream.send_message(Empty(), end=True)
                async for message in stream:
                    self.devices = {one.id: one.health for one in message.devices}
                    self.changed.set()
        except (GRPCError, StreamTerminatedError, OSError):
            self.devices = {}
            self.changed.set()

    async def _list(self, stream: Any) -> None:
        await stream.recv_message()
        self.calls.append("List")
        pods = [PodResources(name, namespace, (ContainerResources("c0"),)) for namespace, name in self._pods.values()]
        await stream.send_message(PodResourcesList(tuple(pods)))

    async def _call(self, name: str, request: Any, kind: type) -> Any:
        assert self._channel is not None, "no plugin is registered"
        method: UnaryUnaryMethod[Any, Any] = UnaryUnaryMethod(
            self._channel, f"/v1beta1.DevicePlugin/{name}", type(request), kind
        )
        self.calls.append(name)
        return await method(request)

    # -- admission

    async def admit(self, pod: dict[str, Any]) -> dict[str, ContainerResponse]:
        """Admit a pod as the API server shows it; what each container gets, or AdmissionError."""
        uid, spec = pod["metadata"]["uid"], pod["spec"]
        self._pods[uid] = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        answers: dict[str, ContainerResponse] = {}
        try:
            for container in [*spec.get("initContainers", ()), *spec["containers"]]:
                count = int(container.get("resources", {}).get("limits", {}).get(RESOURCE, 0))
                if count:
                    answers[container["name"]] = await self._allocate(uid, container["name"], count)
        except GRPCError as error:
            self.remove(uid)
            raise AdmissionError(error.message) from error
        return answers

    async def _allocate(self, uid: str, container: str, count: int) -> ContainerResponse:
        taken = {one for ids in self._held.values() for one in ids}
        free = [one for one, health in self.devices.items() if health == "Healthy" and one not in taken]
        question = PreferredAllocationRequest((PreferenceQuestion(tuple(free), (), count),))
        preferred = await self._call("GetPreferredAllocation", question, PreferredAllocationResponse)
        ids = preferred.containers[0].ids
        assert len(ids) == count
        assert set(ids) <= set(free)
        answer = await self._call("Allocate", AllocateRequest((ContainerIds(ids),)), AllocateResponse)
        self._held[uid, container] = list(ids)
        self._write()
        response: ContainerResponse = answer.containers[0]
        return response

    def remove(self, uid: str) -> None:
        """A pod is gone."""
        self._pods.pop(uid, None)
        for held in [one for one in self._held if one[0] == uid]:
            del self._held[held]
        self._write()

    def _write(self) -> None:
        entries = [
            {"PodUID": uid, "ContainerName": name, "ResourceName": RESOURCE, "DeviceIDs": {"-1": ids}}
            for (uid, name), ids in self._held.items()
        ]
        made = self.plugins / "checkpoint.new"
        made.write_text(json.dumps({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 0}))
        os.replace(made, self.plugins / "kubelet_internal_checkpoint")


class _Service:
    def __init__(self, mapping: dict[str, Any]) -> None:
        self._methods = mapping

    def __mapping__(self) -> dict[str, Handler]:
        unary = Cardinality.UNARY_UNARY
        return {path: Handler(call, unary, ask, reply) for path, (call, ask, reply) in self._methods.items()}
