"""ResourceQuotas in a real API server."""

from tonnage.lab.control_plane import ControlPlane

QUOTAS = "/api/v1/namespaces/default/resourcequotas"


def set_quota(plane: ControlPlane, **hard: str) -> None:
    named = {f"limits.nvidia.com/{name}": value for name, value in hard.items()}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {"hard": named}}
    plane.api.create(QUOTAS, body)
