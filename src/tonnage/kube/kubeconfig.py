"""Kubeconfig files and service accounts: which cluster, and as which user.

Of several files in KUBECONFIG the first that defines a name counts, as for kubectl.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tonnage.kube.errors import AccessError

DEFAULT_FILE = "~/.kube/config"
DEFAULT_NAMESPACE = "default"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_PATHS = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}


class Extension(msgspec.Struct, frozen=True):
    """Data of some program in a cluster's entry."""

    name: str
    extension: Any = None


class ClusterEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """How to reach an API server."""

    server: str = "http://localhost:8080"
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    proxy_url: str | None = None
    tls_server_name: str | None = None
    extensions: tuple[Extension, ...] = ()


class ExecVariable(msgspec.Struct, frozen=True):
    """A variable in a program's environment."""

    name: str
    value: str


class UserExec(msgspec.Struct, frozen=True, rename="camel"):
    """A program that fetches credentials."""

    api_version: str
    command: str
    env: tuple[ExecVariable, ...] | None = None
    args: tuple[str, ...] | None = None
    install_hint: str | None = None
    interactive_mode: str | None = None
    provide_cluster_info: bool = False


class User(msgspec.Struct, frozen=True, rename="kebab"):
    """A user's credentials."""

    exec: UserExec | None = None
    username: str | None = None
    password: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    auth_provider: dict[str, Any] | None = None
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None


class Context(msgspec.Struct, frozen=True):
    """A cluster and a user by their names."""

    cluster: str
    user: str | None = None
    namespace: str | None = None


class KubeConfig(NamedTuple):
    """The entries of a file, or of several, by name."""

    clusters: dict[str, ClusterEntry]
    users: dict[str, User]
    contexts: dict[str, Context]
    current_context: str | None


class Chosen(NamedTuple):
    """The cluster and the user of one context."""

    context: str
    cluster: ClusterEntry
    user: User
    namespace: str = DEFAULT_NAMESPACE
    """The namespace that commands mean if they are told none."""


def from_service_account() -> Chosen:
    """The cluster around this process's pod, as the pod's service account."""
    name = "the pod's service account"
    token = SERVICE_ACCOUNT / "token"
    try:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        token.read_bytes()
    except KeyError as error:
        raise AccessError(f"{name} cannot be used: the variable {error.args[0]} is not set") from error
    except OSError as error:
        raise AccessError(f"{name} cannot be used: {error}") from error
    address = f"[{host}]" if ":" in host else host
    cluster = ClusterEntry(f"https://{address}:{port}", certificate_authority=str(SERVICE_ACCOUNT / "ca.crt"))
    return Chosen("default", cluster, User(token_file=str(token)))


def from_files(files: str, context: str | None) -> Chosen:
    """The cluster and the user of a context, by default the current one; AccessError if a file says neither."""
    try:
        read = [_read(Path(file).expanduser()) for file in files.split(os.pathsep) if _is_file(file)]
        return _choose(_merged(read), context)
    except (OSError, ValueError) as error:
        raise AccessError(f"{files} cannot be used: {error}") from error


def _is_file(path: str) -> bool:
    return bool(path) and os.path.isfile(os.path.expanduser(path))


def _read(path: Path) -> KubeConfig:
    """The entries of a file; ValueError if it is no kubeconfig file."""
    content = _parsed(path.read_text())
    if not isinstance(content, dict):
        raise ValueError("it is no kubeconfig file")
    found: dict[str, dict[str, Any]] = {}
    for section, kind in _SECTIONS.items():
        try:
            # An empty text is as good as none.
            named = {one["name"]: _filled(one.get(kind) or {}) for one in content.get(section) or []}
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{section} is not a list of entries with a name and a {kind}") from error
        for entry in named.values():
            _make_absolute(kind, entry, path.parent)
        found[section] = {name: msgspec.convert(entry, _TYPES[kind]) for name, entry in named.items()}
    return KubeConfig(**found, current_context=content.get("current-context") or None)


def _parsed(text: str) -> object:
    """The content of a file, which may be JSON; ValueError if it is neither that nor YAML."""
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(text)
    # Imported here: in a pod nobody reads such files.
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


_TYPES: dict[str, type[Any]] = {"cluster": ClusterEntry, "user": User, "context": Context}


def _filled(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if value not in (None, "")}


def _make_absolute(kind: str, entry: dict[str, Any], folder: Path) -> None:
    """A relative path begins at the folder of its file; so does that of a program, unless it is a mere name."""
    for name in _PATHS.get(kind, ()):
        if isinstance(entry.get(name), str):
            entry[name] = str(folder / entry[name])
    program = entry.get("exec")
    if isinstance(program, dict) and os.sep in str(program.get("command", "")):
        entry["exec"] = {**program, "command": str(folder / program["command"])}


def _merged(files: list[KubeConfig]) -> KubeConfig:
    clusters: dict[str, ClusterEntry] = {}
    users: dict[str, User] = {}
    contexts: dict[str, Context] = {}
    for one in reversed(files):
        clusters |= one.clusters
        users |= one.users
        contexts |= one.contexts
    return KubeConfig(
        clusters, users, contexts, next((one.current_context for one in files if one.current_context), None)
    )


def _choose(config: KubeConfig, context: str | None) -> Chosen:
    name = context or config.current_context
    if name is None:
        raise ValueError(f"it has no current context; choose one with --context{_known(config.contexts)}")
    if name not in config.contexts:
        raise ValueError(f"there is no context {name}{_known(config.contexts)}")
    chosen = config.contexts[name]
    for kind, wanted, known in (("cluster", chosen.cluster, config.clusters), ("user", chosen.user, config.users)):
        if wanted is not None and wanted not in known:
            raise ValueError(f"context {name} names the {kind} {wanted}, which is not there{_known(known)}")
    user = User() if chosen.user is None else config.users[chosen.user]
    return Chosen(name, config.clusters[chosen.cluster], user, chosen.namespace or DEFAULT_NAMESPACE)


def _known(names: dict[str, Any]) -> str:
    return f" (there are: {', '.join(sorted(names))})" if names else ""
