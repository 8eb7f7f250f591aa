"""gRPC over unix sockets to and from the kubelet, with messages in our own codec."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.const import Cardinality, Handler, Status
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.server import Server, Stream
from h2.connection import H2Connection
from h2.exceptions import H2Error

from tonnage.agent.kubelet.messages import (
    VERSION,
    AllocateRequest,
    AllocateResponse,
    ContainerResponse,
    DeviceList,
    DevicePluginOptions,
    Empty,
    PodResourcesList,
    Preference,
    PreferenceQuestion,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartRequest,
    RegisterRequest,
)
from tonnage.agent.kubelet.protobuf import ProtobufError, decode, encode

# Every call is a stream of a connection that lasts for months; h2 remembers the last 65,536 that ended, in megabytes.
H2Connection.MAX_CLOSED_STREAMS = 256

OPTIONS = DevicePluginOptions(get_preferred_allocation_available=True)
_REGISTER_TIMEOUT = 10.0
_LIST_TIMEOUT = 5.0


class KubeletError(Exception):
    """The kubelet did not answer as it should; the message says what it said."""


class RefusedError(Exception):
    """The answer to the kubelet is no; the message reaches the pod's status."""


class _Codec(CodecBase):
    """Messages of this package on the wire."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return encode(message)

    def decode(self, data: bytes, message_type: Any) -> Any:
        return decode(data, message_type)


class PluginCalls(Protocol):
    """What the kubelet asks a plugin; the agent gives the answers."""

    async def devices(self, send: Callable[[DeviceList], Awaitable[None]]) -> None:
        """Send the list of devices now and whenever it changes, until cancelled."""

    async def preference(self, question: PreferenceQuestion) -> tuple[str, ...]:
        """The best ids for a container."""

    async def allocate(self, ids: tuple[str, ...]) -> ContainerResponse:
        """What a container with these ids gets; RefusedError."""


class PluginServer:
    """Serves the device plugin API on a socket of the kubelet's folder."""

    def __init__(self, calls: PluginCalls) -> None:
        self._calls = calls
        self._server: Server | None = None

    def __mapping__(self) -> dict[str, Handler]:
        unary, stream = Cardinality.UNARY_UNARY, Cardinality.UNARY_STREAM
        prefix = f"/{VERSION}.DevicePlugin"
        return {
            f"{prefix}/GetDevicePluginOptions": Handler(self._options, unary, Empty, DevicePluginOptions),
            f"{prefix}/ListAndWatch": Handler(self._list, stream, Empty, DeviceList),
            f"{prefix}/GetPreferredAllocation": Handler(
                self._prefer, unary, PreferredAllocationRequest, PreferredAllocationResponse
            ),
            f"{prefix}/Allocate": Handler(self._allocate, unary, AllocateRequest, AllocateResponse),
            f"{prefix}/PreStartContainer": Handler(self._pre_start, unary, PreStartRequest, Empty),
        }

    async def start(self, socket: Path) -> None:
        """Listen, over a stale file too."""
        socket.unlink(missing_ok=True)
        self._server = Server([self], codec=_Codec())
        await self._server.start(path=str(socket))

    async def stop(self) -> None:
        """Hang up."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _options(self, stream: Stream[Any, Any]) -> None:
        await stream.recv_message()
        await stream.send_message(OPTIONS)

    async def _list(self, stream: Stream[Any, Any]) -> None:
        await stream.recv_message()
        await self._calls.devices(stream.send_message)

    async def _prefer(self, stream: Stream[Any, Any]) -> None:
        request = await _received(stream)
        answers = [Preference(await self._calls.preference(question)) for question in request.containers]
        await stream.send_message(PreferredAllocationResponse(tuple(answers)))

    async def _allocate(self, stream: Stream[Any, Any]) -> None:
        request = await _received(stream)
        try:
            answers = [await self._calls.allocate(container.ids) for container in request.containers]
        except RefusedError as error:
            raise GRPCError(Status.FAILED_PRECONDITION, str(error)) from error
        await stream.send_message(AllocateResponse(tuple(answers)))

    async def _pre_start(self, stream: Stream[Any, Any]) -> None:
        await stream.recv_message()
        await stream.send_message(Empty())


async def _received(stream: Stream[Any, Any]) -> Any:
    try:
        return await stream.recv_message()
    except ProtobufError as error:
        raise GRPCError(Status.INVALID_ARGUMENT, str(error)) from error


async def register(kubelet: Path, endpoint: str, resource: str) -> None:
    """Tell the kubelet where the plugin listens; it calls back before this returns. KubeletError."""
    request = RegisterRequest(VERSION, endpoint, resource, OPTIONS)
    channel = Channel(path=str(kubelet), codec=_Codec())
    try:
        await _call(channel, f"/{VERSION}.Registration/Register", request, Empty, _REGISTER_TIMEOUT)
    finally:
        channel.close()


class PodLister:
    """Lists the kubelet's pods over a connection that is kept: it is asked about every container."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel: Channel | None = None

    async def pods(self) -> PodResourcesList:
        """The pods that the kubelet has, also the one that it is about to admit. KubeletError."""
        if self._channel is not None:
            try:
                return await self._list(self._channel)
            except KubeletError:
                # The kubelet may be another one by now.
                self.close()
        self._channel = Channel(path=str(self._socket), codec=_Codec())
        try:
            return await self._list(self._channel)
        except KubeletError:
            self.close()
            raise

    async def _list(self, channel: Channel) -> PodResourcesList:
        path = "/v1.PodResourcesLister/List"
        answer: PodResourcesList = await _call(channel, path, Empty(), PodResourcesList, _LIST_TIMEOUT)
        return answer

    def close(self) -> None:
        """Hang up."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None


async def _call(channel: Channel, path: str, request: Any, kind: type, timeout: float) -> Any:
    try:
        method: UnaryUnaryMethod[Any, Any] = UnaryUnaryMethod(channel, path, type(request), kind)
        return await method(request, timeout=timeout)
    except GRPCError as error:
        raise KubeletError(f"{path}: {error.message or error.status.name}") from error
    except (OSError, StreamTerminatedError, TimeoutError, ProtobufError, H2Error, AttributeError) as error:
        # grpclib takes a transport that is gone for an attribute if the kubelet hangs up between connecting and asking.
        raise KubeletError(f"{path}: {error or type(error).__name__}") from error
