"""HAMi's metrics about quotas on cards, of both generations."""

from collections.abc import Iterator

from tonnage.cluster.quotas import Quota, Quotas
from tonnage.observability.exposition import ZONE, Family, label_text, samples

_USED = ("namespace", "quota_name", "limit", "zone")
_LIMIT = ("namespace", "quota_name", "zone")
_OLD = ("quotanamespace", "quotaName", "limit", "zone")

USED = Family("hami_resource_quota_used", _USED, "What pods hold of a resource with a quota, in MiB or percent.")
LIMIT = Family("hami_resource_quota_limit", _LIMIT, "The quota on the resource, in MiB or percent.")
OLD_USED = Family("QuotaUsed", _OLD, USED.help)
NEW = [USED, LIMIT]
OLD = [OLD_USED]


def quota_text(quotas: Quotas, legacy: bool) -> Iterator[str]:
    """The lines about all quotas."""
    now = list(quotas.all())
    for family in (USED, LIMIT, *(OLD if legacy else ())):
        yield from samples(family, [(_labels(family, *one), _value(family, one[2])) for one in now])


def _labels(family: Family, namespace: str, resource: str, quota: Quota) -> str:
    values = (namespace, resource, str(quota.limit), ZONE) if "limit" in family.labels else (namespace, resource, ZONE)
    return label_text(family.labels, values)


def _value(family: Family, quota: Quota) -> int:
    return quota.limit if family is LIMIT else quota.used
