"""ResourceQuotas as Tonnage reads them: what the pods of a namespace may have together."""

import msgspec

from tonnage.model.meta import ObjectMeta


class QuotaSpec(msgspec.Struct, gc=False, frozen=True):
    """The limits by resource, and which of the namespace's pods are meant."""

    hard: dict[str, str | int | float] | None = None
    scopes: list[str] | None = None
    scopeSelector: dict[str, object] | None = None


class ResourceQuota(msgspec.Struct, gc=False, frozen=True):
    """A quota of a namespace; several of them hold side by side."""

    metadata: ObjectMeta
    spec: QuotaSpec = QuotaSpec()

    @property
    def namespace(self) -> str:
        return self.metadata.namespace or "default"

    @property
    def key(self) -> str:
        return self.metadata.key
