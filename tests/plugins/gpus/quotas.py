"""ResourceQuotas of cards, and what of them is in use."""

from tests.scenario import scenario
from tonnage.cluster.cluster import Cluster
from tonnage.model.meta import ObjectMeta
from tonnage.model.quota import QuotaSpec, ResourceQuota

MEMORY, CORES = "limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores"
NOT_FIT = "ResourceQuotaNotFit"


def quota(hard, namespace="default", name="gpus"):
    return ResourceQuota(ObjectMeta(name, namespace), QuotaSpec(hard))


def limited(hard, *objects) -> Cluster:
    """A scenario whose namespace `default` has a quota."""
    cluster = scenario(*objects)
    cluster.quotas.upsert(quota(hard))
    return cluster


def used(cluster, resource="nvidia.com/gpumem", namespace="default"):
    found = cluster.quotas.quota(namespace, resource)
    assert found is not None
    return found.used
