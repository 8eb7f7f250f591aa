"""ResourceQuotas: limits on what all pods of a namespace hold together."""

import msgspec

from tonnage.model.meta import ObjectMeta


class QuotaSpec(msgspec.Struct, gc=False, frozen=True):
    """The limits by resource, and the scopes that choose pods of the namespace."""

    hard: dict[str, str | int | float] | None = None
    scopes: list[str] | None = None
    scopeSelector: dict[str, object] | None = None


class ResourceQuota(msgspec.Struct, gc=False, frozen=True):
    """A quota of a namespace; several quotas apply at the same time."""

    metadata: ObjectMeta
    spec: QuotaSpec = QuotaSpec()

    @property
    def namespace(self) -> str:
        return self.metadata.namespace or "default"

    @property
    def key(self) -> str:
        return self.metadata.key
