"""The configuration of a running scheduler: from its own port, or by the flags of its pod.

The pod is looked for where the chart puts it. Tenants must not be able to create pods there: whoever can, says
which configuration explanations go by.
"""

from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import msgspec

from tonnage.config.notes import ConfigError, Note
from tonnage.config.source import text_of
from tonnage.kube.client import Client
from tonnage.kube.paths import api_path
from tonnage.model.excerpt import excerpt
from tonnage.model.meta import ObjectMeta
from tonnage.model.wire import WireError, decode

NAMESPACE, LABEL = "tonnage", "app=tonnage-batch-scheduler"
"""Where the chart puts the scheduler's pods, and how it labels them."""
_PATH = "/debug/config"
_SECONDS = 10.0
_LARGEST = 2**20
_COMMAND, _CONFIG, _POLICY = "scheduler", "--config", "--policy"


class _Container(msgspec.Struct, frozen=True):
    command: list[str] | None = None
    args: list[str] | None = None


class _Spec(msgspec.Struct, frozen=True):
    containers: list[_Container] = []


class _SchedulerPod(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _Spec = _Spec()


class _Pods(msgspec.Struct, frozen=True):
    items: list[_SchedulerPod] | None = None


class SchedulerFlags(msgspec.Struct, frozen=True):
    """What the pod of a running scheduler was started with."""

    pod: str
    config: str | None = None
    policy: str | None = None


def served_config(address: str) -> str:
    """The configuration that a scheduler at an address has in force; ConfigError if it does not tell."""
    url = address.rstrip("/") + _PATH
    try:
        if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).hostname:
            raise ConfigError(
                address, [Note(None, "no address of a scheduler; expected one such as http://127.0.0.1:8080")], []
            )
        # Nobody else is asked than the address says, no proxy either, and no credentials are sent.
        with build_opener(_NoRedirects, ProxyHandler({})).open(Request(url), timeout=_SECONDS) as answer:
            body = answer.read(_LARGEST + 1)
    except HTTPError as error:
        with error:
            said = excerpt(error.read(500).decode(errors="replace").strip())
        raise _silent(address, f"{error.code} {said}") from error
    except (OSError, ValueError) as error:
        raise _silent(address, str(error.reason if isinstance(error, URLError) else error)) from error
    if len(body) > _LARGEST:
        raise _silent(address, f"the answer is larger than {_LARGEST} bytes; is this a scheduler?")
    return text_of(body, url)


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def _silent(address: str, why: str) -> ConfigError:
    return ConfigError(address, [Note(None, f"the scheduler does not tell its configuration: {why}")], [])


async def deployed_scheduler(client: Client) -> SchedulerFlags | None:
    """The flags of the scheduler's pod, the first by name; None if there is no such pod.

    KubeError if the API server does not tell.
    """
    body = await client.get(api_path("v1", "namespaces", NAMESPACE, "pods"), {"labelSelector": LABEL})
    try:
        pods = decode(body, _Pods).items or []
    except WireError:
        return None
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        for container in pod.spec.containers:
            words = [*(container.command or ()), *(container.args or ())]
            if _COMMAND in words and pod.metadata.deletionTimestamp is None:
                return SchedulerFlags(
                    f"{NAMESPACE}/{pod.metadata.name}", _value(words, _CONFIG), _value(words, _POLICY)
                )
    return None


def _value(words: list[str], flag: str) -> str | None:
    """The value of a flag, given as `--flag=value` or in two words; the last one counts."""
    found: str | None = None
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word.startswith(f"{flag}="):
            found = word.removeprefix(f"{flag}=")
        elif word == flag:
            found = after
    return found
