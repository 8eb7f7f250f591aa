"""ConfigMaps as Tonnage reads them: texts by key."""

import msgspec

from tonnage.kube.resource import Resource
from tonnage.model.meta import ObjectMeta


class ConfigMap(msgspec.Struct, gc=False, frozen=True):
    """The text data of a ConfigMap."""

    metadata: ObjectMeta
    data: dict[str, str] | None = None


def one_config_map(namespace: str, name: str) -> Resource:
    """The resource of one ConfigMap, which need not exist."""
    return Resource("ConfigMap", f"/api/v1/namespaces/{namespace}/configmaps", ConfigMap, only=name)
