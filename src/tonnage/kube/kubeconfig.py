"""Kubeconfig files and service accounts: which cluster, and as which user.

lightkube reads them. Tonnage adds what its models leave out (proxy, TLS server name, the newer fields of credential
programs) and several files in KUBECONFIG, of which the first that defines a name counts, as for kubectl.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml
from lightkube.config import models
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig, to_mapping
from lightkube.core.exceptions import ConfigError

from tonnage.kube.errors import AccessError

DEFAULT_FILE = "~/.kube/config"
_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_PATHS = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}


class Extension(msgspec.Struct, frozen=True):
    """Data of some program in a cluster's entry."""

    name: str
    extension: Any = None


class ClusterEntry(models.Cluster):
    """How to reach an API server."""

    proxy_url: str | None = msgspec.field(name="proxy-url", default=None)
    server_name: str | None = msgspec.field(name="tls-server-name", default=None)
    extensions: tuple[Extension, ...] = ()


class UserExec(models.UserExec):
    """A program that fetches credentials."""

    interactive_mode: str | None = msgspec.field(name="interactiveMode", default=None)
    provide_cluster_info: bool = msgspec.field(name="provideClusterInfo", default=False)


class User(models.User):
    """A user's credentials."""

    exec: UserExec | None = None


class Chosen(NamedTuple):
    """The cluster and the user of one context."""

    context: str
    cluster: ClusterEntry
    user: User


def from_service_account() -> Chosen:
    """The cluster around this process's pod, as the pod's service account."""
    name = "the pod's service account"
    try:
        found = KubeConfig.from_service_account(SERVICE_ACCOUNT).get()
    except KeyError as error:
        raise AccessError(f"{name} cannot be used: the variable {error.args[0]} is not set") from error
    except (ConfigError, OSError, ValueError) as error:
        raise AccessError(f"{name} cannot be used: {error}") from error
    assert found is not None
    assert found.user is not None
    cluster = ClusterEntry(server=found.cluster.server, certificate_auth=found.cluster.certificate_auth)
    return Chosen(found.context_name, cluster, User(token_file=found.user.token_file))


def from_files(files: str, context: str | None) -> Chosen:
    """The cluster and the user of a context, by default the current one; AccessError if a file says neither."""
    try:
        read = [_read(Path(file).expanduser()) for file in files.split(os.pathsep) if _is_file(file)]
        return _choose(_merged(read), context)
    except (ConfigError, OSError, ValueError, yaml.YAMLError) as error:
        raise AccessError(f"{files} cannot be used: {error}") from error


def _is_file(path: str) -> bool:
    return bool(path) and os.path.isfile(os.path.expanduser(path))


def _read(path: Path) -> KubeConfig:
    content = yaml.safe_load(path.read_text())
    if not isinstance(content, dict):
        raise ConfigError("it is no kubeconfig file")
    found: dict[str, dict[str, Any]] = {}
    for section, kind in _SECTIONS.items():
        entries = content.get(section) or []
        try:
            # An empty text is as good as none.
            named = [{"name": one["name"], kind: _filled(one.get(kind) or {})} for one in entries]
        except (AttributeError, KeyError, TypeError) as error:
            raise ConfigError(f"{section} is not a list of entries with a name and a {kind}") from error
        for one in named:
            _make_absolute(kind, one[kind], path.parent)
        found[section] = to_mapping(named, kind, _FACTORIES[kind])
    current = content.get("current-context") or None
    return KubeConfig(
        clusters=found["clusters"], contexts=found["contexts"], users=found["users"], current_context=current
    )


_FACTORIES: dict[str, type] = {"cluster": ClusterEntry, "user": User, "context": models.Context}


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
    whole = KubeConfig(clusters={}, contexts={}, users={})
    for one in files:
        whole.clusters = {**one.clusters, **whole.clusters}
        whole.contexts = {**one.contexts, **whole.contexts}
        whole.users = {**one.users, **whole.users}
        whole.current_context = whole.current_context or one.current_context
    return whole


def _choose(config: KubeConfig, context: str | None) -> Chosen:
    name = context or config.current_context
    if name is None:
        raise ConfigError(f"it has no current context; choose one with --context{_known(config.contexts)}")
    if name not in config.contexts:
        raise ConfigError(f"there is no context {name}{_known(config.contexts)}")
    chosen = config.contexts[name]
    for kind, wanted, known in (("cluster", chosen.cluster, config.clusters), ("user", chosen.user, config.users)):
        if wanted is not None and wanted not in known:
            raise ConfigError(f"context {name} names the {kind} {wanted}, which is not there{_known(known)}")
    found = config.get(name)
    assert found is not None
    return Chosen(name, found.cluster, found.user or User())  # type: ignore[arg-type]


def _known(names: dict[str, Any]) -> str:
    return f" (there are: {', '.join(sorted(names))})" if names else ""
