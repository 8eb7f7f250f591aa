"""PeerObjects: the objects that another scheduler consists of, from files or a live cluster."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError
from tonnage.kube.paths import api_path
from tonnage.manifests.objects import Manifests, Reader
from tonnage.manifests.written import Header, Written
from tonnage.model.wire import WireError, convert, decode

DEPLOYMENTS = ("apps/v1", "Deployment")
CONFIG_MAPS = ("v1", "ConfigMap")
DEFINITIONS = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


class PeerContainer(msgspec.Struct, frozen=True):
    """A container of a scheduler, with its command line."""

    name: str = ""
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None

    @property
    def words(self) -> list[str]:
        """The command line; what a shell is given is taken apart at blanks."""
        words = [*(self.command or ()), *(self.args or ())]
        if words[:2] in (["/bin/sh", "-c"], ["sh", "-c"], ["/bin/bash", "-c"]):
            return " ".join(words[2:]).split()
        return words

    @property
    def program(self) -> str:
        """The last part of the image's name, without registry and tag."""
        return self.image.partition("@")[0].rpartition("/")[2].partition(":")[0]

    @property
    def tag(self) -> str:
        return self.image.partition("@")[0].rpartition("/")[2].partition(":")[2] or "of an unknown version"


class _MapReference(msgspec.Struct, frozen=True):
    name: str = ""


class _Volume(msgspec.Struct, frozen=True, rename="camel"):
    config_map: _MapReference | None = None


class _PeerPodSpec(msgspec.Struct, frozen=True):
    containers: list[PeerContainer] = []
    volumes: list[_Volume] | None = None


class _Template(msgspec.Struct, frozen=True):
    spec: _PeerPodSpec = _PeerPodSpec()


class _DeploymentSpec(msgspec.Struct, frozen=True):
    template: _Template = _Template()
    replicas: int | None = None


class _Named(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str | None = None


class PeerDeployment(msgspec.Struct, frozen=True):
    """A Deployment, as far as its containers and configuration matter."""

    metadata: _Named
    spec: _DeploymentSpec = _DeploymentSpec()

    @property
    def namespace(self) -> str:
        return self.metadata.namespace or "default"

    @property
    def name(self) -> str:
        return self.metadata.name


class PeerConfigMap(msgspec.Struct, frozen=True):
    """A ConfigMap."""

    metadata: _Named
    data: dict[str, str] | None = None


class _Definition(msgspec.Struct, frozen=True):
    metadata: _Named


class _Items(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] | None = None


class MountedText(NamedTuple):
    """A configuration, and where it was found."""

    source: str
    text: str


class PeerObjects:
    """Deployments, ConfigMaps and the names of CustomResourceDefinitions."""

    def __init__(self) -> None:
        self.deployments: list[PeerDeployment] = []
        self.config_maps: dict[tuple[str, str], PeerConfigMap] = {}
        self.definitions: set[str] | None = None
        """Nothing if nobody said which are installed."""
        self.problems: list[str] = []

    def take(self, header: tuple[str | None, str | None], plain: object) -> None:
        """Keep an object if it is of one of the kinds; what is wrong with it becomes a problem."""
        try:
            if header == DEPLOYMENTS:
                self.deployments.append(convert(plain, PeerDeployment))
            elif header == CONFIG_MAPS:
                found = convert(plain, PeerConfigMap)
                self.config_maps[found.metadata.namespace or "default", found.metadata.name] = found
            elif header == DEFINITIONS:
                self.definitions = {*(self.definitions or ()), convert(plain, _Definition).metadata.name}
        except WireError as error:
            self.problems.append(f"a {header[1]} cannot be read: {error}")

    def running(self, is_peer: Callable[[PeerContainer], bool]) -> tuple[PeerDeployment, PeerContainer] | None:
        """The Deployment with such a container, one that is not scaled to 0 first."""
        found = [
            (deployment.spec.replicas == 0, deployment.namespace, deployment.name, deployment, container)
            for deployment in self.deployments
            for container in deployment.spec.template.spec.containers
            if is_peer(container)
        ]
        return min(found, key=lambda one: one[:3])[3:] if found else None

    def mounted(self, deployment: PeerDeployment, path: str) -> MountedText | None:
        """The text of a file that a ConfigMap of the Deployment provides; None, with a problem, if it is not known."""
        key = path.rpartition("/")[2]
        names = self.maps_of(deployment)
        for name in names:
            found = self.config_maps.get((deployment.namespace, name))
            if found is not None and key in (found.data or {}):
                return MountedText(f"ConfigMap {deployment.namespace}/{name}, {key}", (found.data or {})[key])
        where = " or ".join(f"ConfigMap {deployment.namespace}/{name}" for name in names) or "no ConfigMap is mounted"
        self.problems.append(f"{path} of Deployment {deployment.namespace}/{deployment.name} is not known: {where}")
        return None

    def maps_of(self, deployment: PeerDeployment) -> list[str]:
        """The names of the ConfigMaps that a Deployment mounts."""
        volumes = deployment.spec.template.spec.volumes or ()
        return [volume.config_map.name for volume in volumes if volume.config_map is not None]

    def lacking(self, definitions: Iterable[str]) -> list[str]:
        """Those of the definitions that are not installed; none if that is not known."""
        return [] if self.definitions is None else [name for name in definitions if name not in self.definitions]


def reader_into(objects: PeerObjects) -> Callable[[str, Manifests], Reader]:
    """Makes readers of manifests that keep these objects beside those that the engine reads."""

    class PeerReader(Reader):
        def take(self, written: Written, implied: Header | None = None, depth: int = 0) -> None:
            implied = implied or Header()
            try:
                header = written.header()
                named = (header.version or implied.version, header.kind or implied.kind)
                if named in (DEPLOYMENTS, CONFIG_MAPS, DEFINITIONS) and not header.is_list:
                    objects.take(named, written.plain())
            except WireError:
                pass  # Told by the reader itself.
            super().take(written, implied, depth)

    return PeerReader


async def read_peer(client: Client, is_peer: Callable[[PeerContainer], bool]) -> PeerObjects:
    """The objects of a live cluster; what may not be read is a problem in a sentence."""
    objects = PeerObjects()
    for header, path in (
        (DEPLOYMENTS, api_path("apps/v1", "deployments")),
        (DEFINITIONS, api_path(DEFINITIONS[0], "customresourcedefinitions")),
    ):
        await _list(client, objects, header, path)
    found = objects.running(is_peer)
    for name in objects.maps_of(found[0]) if found else ():
        assert found
        path = api_path("v1", "namespaces", found[0].namespace, "configmaps", name)
        try:
            objects.take(CONFIG_MAPS, decode(await client.get(path), dict[str, Any]))
        except (KubeError, WireError) as error:
            objects.problems.append(f"ConfigMap {found[0].namespace}/{name} cannot be read: {error}")
    return objects


async def _list(client: Client, objects: PeerObjects, header: tuple[str, str], path: str) -> None:
    try:
        for item in decode(await client.get(path), _Items).items or ():
            objects.take(header, decode(bytes(item), dict[str, Any]))
    except (KubeError, WireError) as error:
        objects.problems.append(f"{header[1]}s cannot be listed, so their settings are not known: {error}")
