"""Errors of requests to an API server."""

import msgspec

from tonnage.model.wire import WireError, decode


class KubeError(Exception):
    """A request to the API server failed."""


class UnsentError(KubeError):
    """The request was not sent, so nothing has happened."""


class AccessError(UnsentError):
    """No cluster can be reached: the configuration is missing or cannot be used."""


class ConnectionLostError(KubeError):
    """No answer, or only a part: time-out, reset, early end. Whether a write happened is unknown."""


class TooLargeError(KubeError):
    """The answer is larger than an answer may be; a shorter list may not be."""


class StatusError(KubeError):
    """The API server answered with an error status."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(f"{status} {reason}: {message}" if message else f"{status} {reason}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        """Seconds after which the API server wants to be asked again; 0 if it does not say."""

    @property
    def is_definite(self) -> bool:
        """Whether it is certain that a write did not happen."""
        return 400 <= self.status < 500


class OutdatedError(KubeError):
    """The watch cannot be continued; only a new list helps."""


class _Status(msgspec.Struct, frozen=True):
    """A Status object of the API server."""

    code: int = 0
    reason: str | None = None
    message: str | None = None


def refusal(body: bytes | msgspec.Raw, status: int = 0, reason: str = "", retry_after: float = 0.0) -> StatusError:
    """The error that a Status object tells; the body of another program, such as a proxy, is shown as it is."""
    try:
        said = decode(body, _Status)
    except WireError:
        said = _Status(message=bytes(body)[:200].decode(errors="replace").strip())
    return StatusError(status or said.code, said.reason or reason, said.message or "", retry_after)
