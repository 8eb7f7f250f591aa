"""The flags of commands that look at a cluster, live or in files, and the view that they come to."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tonnage import __version__
from tonnage.cli.flags.filenames import recursive
from tonnage.cli.flags.policy import DecidedBy, decided_by, policy_option
from tonnage.cli.inputs import (
    STANDARD_INPUT,
    BadInput,
    device_config_file,
    device_vendors,
    find_plugins,
    plugin_files,
    standard_input,
    valid_settings,
)

if TYPE_CHECKING:
    from tonnage.kube.client import Client
    from tonnage.live.view import ClusterView, ObservedCluster

_DEFAULT = "HAMi's policies decide; for others give --config, --policy or --scheduler"


class _Found(NamedTuple):
    """What decides, and what a user should know about how that was found."""

    decided: DecidedBy
    note: str = ""


class ViewSource(NamedTuple):
    """The cluster that the flags name, and the configuration."""

    files: tuple[str, ...]
    recursive: bool
    kubeconfig: str | None
    context: str | None
    config: str | None
    policy: str | None
    scheduler: str | None
    plugins: tuple[str, ...]
    device_config_file: str | None

    @property
    def is_live(self) -> bool:
        return not self.files

    def read(self) -> "ClusterView":
        """The cluster as it is now; ends the command if it cannot be read."""
        if not self.is_live:
            return self._from_files()
        with reading_failures():
            return asyncio.run(self._listed())

    @asynccontextmanager
    async def follow(self, namespace: str | None = None) -> "AsyncIterator[ClusterView]":
        """The cluster while it is followed; one in files stays as it is. Ends the command if it cannot be read.

        Of a live cluster, only the namespace is followed if the rest may not be read.
        """
        if not self.is_live:
            yield self._from_files()
            return
        from tonnage.kube.client import connect
        from tonnage.live.followed import following

        with reading_failures():
            client = await connect(self.kubeconfig, self.context)
            try:
                vendors = device_vendors(self.device_config_file)
                async with following(client, vendors, namespace=namespace) as followed:
                    yield await self._view(client, followed)
            finally:
                await client.close()

    async def _listed(self) -> "ClusterView":
        from tonnage.kube.client import connect
        from tonnage.live.listed import list_cluster

        client = await connect(self.kubeconfig, self.context)
        try:
            return await self._view(client, await list_cluster(client, device_vendors(self.device_config_file)))
        finally:
            await client.close()

    async def _view(self, client: "Client", live: "ObservedCluster") -> "ClusterView":
        from tonnage.live.view import ClusterView

        found = await self._running(client) if self._is_config_open else await self._given(client)
        decided = found.decided
        return ClusterView(live, client.server, decided.plugins, decided.actions, decided.name, found.note)

    # -- files

    def _from_files(self) -> "ClusterView":
        from tonnage.cluster.cluster import Cluster
        from tonnage.live.listed import ListedCluster
        from tonnage.live.view import ClusterView
        from tonnage.manifests.owners.expansion import add_missing_pods
        from tonnage.manifests.read import ManifestError, read_files

        if STANDARD_INPUT in self.files and self.config == STANDARD_INPUT:
            raise BadInput("standard input can be read only once; give - once")
        try:
            manifests = read_files(self.files, stdin=standard_input(), recursive=self.recursive)
            taken = manifests.snapshot
            at = None if taken is None else taken.time
            now = time.time if at is None else lambda: at
            add_missing_pods(manifests, now())
        except ManifestError as error:
            raise BadInput(str(error)) from error
        if not manifests.nodes:
            raise BadInput("there are no nodes; give them too, such as with kubectl get nodes -o yaml")
        cluster = Cluster(device_vendors(self.device_config_file))
        manifests.put_into(cluster)
        cluster.settle()
        cluster.now = now()
        notes = [] if taken is None else [_of_version(taken.version)]
        if not self._is_config_open:
            decided = self._decided(self.config)
        elif taken is not None and taken.config is not None:
            decided = self._loaded(taken.config, "the snapshot's configuration")
        else:
            decided = self._decided(None)
            notes.append(f"{_DEFAULT} (the files name no configuration)")
        place, note = ", ".join(self.files), "; ".join(filter(None, notes))
        live = ListedCluster(cluster, tuple(manifests.problems))
        return ClusterView(live, place, decided.plugins, decided.actions, decided.name, note, now)

    # -- the configuration

    @property
    def _is_config_open(self) -> bool:
        """Whether nobody said what decides."""
        return self.config is None and self.policy is None and self.scheduler is None

    def _decided(self, config: str | None) -> DecidedBy:
        """What --policy, --scheduler and a configuration file come to."""
        if self.scheduler is not None:
            return self._loaded(*_served(self.scheduler))
        return decided_by(self.policy, config, find_plugins(self.plugins))

    def _loaded(self, text: str, source: str) -> DecidedBy:
        from tonnage.config.load import load_text

        settings = valid_settings(lambda: load_text(text, source, find_plugins(self.plugins)))
        return DecidedBy(settings.source, settings.plugins, settings.actions)

    async def _given(self, client: "Client") -> _Found:
        from tonnage.scheduler.reload.sources import map_name

        name = None if self.config is None else map_name(self.config)
        if name is None:
            return _Found(self._decided(self.config))
        if self.policy is not None:
            raise BadInput("give either --policy or --config with a ConfigMap")
        return _Found(await self._from_config_map(client, str(name)))

    async def _from_config_map(self, client: "Client", config: str) -> DecidedBy:
        """The configuration in a ConfigMap; BadInput if it is not valid, KubeError if it cannot be read."""
        from tonnage.config.notes import ConfigError
        from tonnage.kube.watch import Backoff
        from tonnage.scheduler.reload.sources import ConfigMapSource, map_name

        name = map_name(config)
        assert name is not None
        try:
            text = await ConfigMapSource(client, name, Backoff(draw=lambda: 0.0)).read()
        except ConfigError as error:
            raise BadInput(f"the configuration is not valid\n{error}") from error
        return self._loaded(text, config)

    async def _running(self, client: "Client") -> _Found:
        """What the scheduler of the cluster goes by, as far as its pod tells; else the default, and why."""
        from tonnage.kube.errors import KubeError
        from tonnage.live.runningconfig import LABEL, NAMESPACE, deployed_scheduler

        try:
            flags = await deployed_scheduler(client)
            if flags is None:
                why = f"namespace {NAMESPACE} has no pod {LABEL} to ask"
            elif flags.config is None:
                return _Found(decided_by(flags.policy, None, find_plugins(self.plugins)))
            elif flags.config.startswith("configmap:"):
                return _Found(await self._from_config_map(client, flags.config))
            else:
                why = f"{flags.pod} reads its configuration from {flags.config}, which cannot be seen from here"
        except (BadInput, KubeError) as error:
            why = str(error.message if isinstance(error, BadInput) else error)
        return _Found(self._decided(None), f"{_DEFAULT} ({why})")


def _of_version(version: str | None) -> str:
    return "" if version in (None, __version__) else f"the snapshot is of tonnage {version}, this is {__version__}"


@contextmanager
def reading_failures() -> Iterator[None]:
    """End the command with the words of what keeps a cluster from being read."""
    from tonnage.kube.errors import AccessError, KubeError

    # What is logged is told as problems and as trouble; lines amid a table or a screen help nobody.
    logging.getLogger("tonnage").addHandler(logging.NullHandler())
    try:
        yield
    except AccessError as error:
        raise BadInput(str(error)) from error
    except KubeError as error:
        raise click.ClickException(str(error)) from error


def _served(address: str) -> tuple[str, str]:
    from tonnage.config.notes import ConfigError
    from tonnage.live.runningconfig import served_config

    try:
        return served_config(address), address
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


def _checked_config(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    from tonnage.scheduler.reload.sources import map_name

    try:
        if text is not None:
            map_name(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return text


def live_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the flags about which cluster is looked at and what decides there, as `source`."""

    @wraps(command)
    def with_source(**given: Any) -> Any:
        source = ViewSource(**{name: given.pop(name) for name in ViewSource._fields})
        _check(source)
        return command(source=source, **given)

    decorated: Callable[..., Any] = with_source
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _check(source: ViewSource) -> None:
    if source.files and (source.kubeconfig or source.context):
        raise click.UsageError("give either -f or --kubeconfig and --context: files, or a live cluster")
    if source.scheduler and (source.config or source.policy):
        raise click.UsageError("give either --scheduler or --config and --policy")
    if source.files and source.config is not None and source.config.startswith("configmap:"):
        raise click.UsageError("a ConfigMap is read from a live cluster; with -f give --config FILE")


_OPTIONS: Sequence[Callable[..., Any]] = (
    click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        metavar="FILE...",
        help="Look at manifests or a snapshot instead of a live cluster: files, folders, - for standard input. May be "
        "repeated.",
    ),
    recursive,
    click.option("--kubeconfig", metavar="FILE", help="The cluster's kubeconfig file.  [default: as kubectl finds it]"),
    click.option("--context", metavar="NAME", help="The context in that file.  [default: its current one]"),
    click.option(
        "--config",
        callback=_checked_config,
        metavar="FILE",
        help="The scheduler configuration that decides, or configmap:NAMESPACE/NAME[/KEY].  [default: that of the "
        "running scheduler]",
    ),
    policy_option,
    click.option(
        "--scheduler",
        metavar="URL",
        help="The address of a running `tonnage scheduler` whose configuration decides, such as http://127.0.0.1:8080.",
    ),
    plugin_files,
    device_config_file,
)
