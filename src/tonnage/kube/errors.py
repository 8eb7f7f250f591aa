"""What can go wrong between Tonnage and an API server."""

import msgspec

from tonnage.model.wire import WireError, decode


class KubeError(Exception):
    """Something about talking to the cluster failed."""


class AccessError(KubeError):
    """There is no way to reach a cluster: no configuration, or one that cannot be used."""


class ConnectionLostError(KubeError):
    """No answer, or not all of it: time-out, reset, end in the middle. Whether a write happened is unknown."""


class StatusError(KubeError):
    """The API server's answer is no success."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}" if message else f"{status} {reason}")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def is_definite(self) -> bool:
        """Whether it is certain that a write did not happen."""
        return 400 <= self.status < 500


class OutdatedError(KubeError):
    """What was read so far cannot be continued; only a new list helps."""


class _Status(msgspec.Struct, frozen=True):
    """How the API server words a refusal."""

    code: int = 0
    reason: str | None = None
    message: str | None = None


def refusal(body: bytes | msgspec.Raw, status: int = 0, reason: str = "") -> StatusError:
    """What the API server said when it refused; what a proxy or a stranger said is shown as it is."""
    try:
        said = decode(body, _Status)
    except WireError:
        said = _Status(message=bytes(body)[:200].decode(errors="replace").strip())
    return StatusError(status or said.code, said.reason or reason, said.message or "")
