"""The options of `tonnage extender` as typed data."""

from typing import Literal

import msgspec

from tonnage.server.flagvalues import Address


class DeviceFlags(msgspec.Struct, frozen=True, kw_only=True):
    """What HAMi took as flags before the device configuration came; nothing where it is not given."""

    default_mem: int | None = None
    default_cores: int | None = None
    default_gpu: int | None = None
    resource_name: str | None = None
    resource_mem: str | None = None
    resource_mem_percentage: str | None = None
    resource_cores: str | None = None
    resource_priority: str | None = None
    overwrite_env: bool | None = None
    cambricon_mlu_name: str | None = None
    cambricon_mlu_memory: str | None = None
    cambricon_mlu_cores: str | None = None
    dcu_name: str | None = None
    dcu_memory: str | None = None
    dcu_cores: str | None = None
    iluvatar_name: str | None = None
    iluvatar_memory: str | None = None
    iluvatar_cores: str | None = None
    ascend_config_file: str | None = None
    metax_name: str | None = None
    metax_vcount: str | None = None
    metax_vmemory: str | None = None
    metax_vcore: str | None = None
    mthreads_name: str | None = None
    mthreads_memory: str | None = None
    mthreads_cores: str | None = None
    kunlun_name: str | None = None
    kunlun_vcount: str | None = None
    kunlun_vmemory: str | None = None
    enflame_gcu_resource_name: str | None = None
    enflame_drs_gcu_resource_name: str | None = None
    enflame_gcu_memory_resource_name: str | None = None
    enflame_gcu_core_resource_name: str | None = None
    enflame_vgcu_resource_name: str | None = None

    @property
    def given(self) -> list[str]:
        """The flags that were given, as they are written."""
        return [flag(name) for name in self.__struct_fields__ if getattr(self, name) is not None]


class ExtenderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """All options; times in seconds."""

    http_bind: Address = Address("127.0.0.1", 8080)
    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""
    """Whose client certificates may call the verbs from elsewhere; nothing: only loopback peers may."""
    peer_bind: Address | None = None
    """Where other replicas forward to; nothing: they do not."""
    peer_cert_file: str = ""
    peer_key_file: str = ""
    peer_ca_file: str = ""
    certificate_secret: str = ""
    """NAMESPACE/NAME of the Secret in which the certificate is kept that this process makes; nothing: it makes none."""
    peer_certificate_secret: str = ""
    webhook_configuration: str = ""
    certificate_lifetime: float = 90 * 24 * 3600
    authorize_metrics: bool = False
    dashboard: bool = False
    scheduler_name: str = ""
    node_scheduler_policy: Literal["binpack", "spread"] | None = None
    """Nothing: the scheduler configuration's; without one, binpack."""
    gpu_scheduler_policy: str | None = None
    """Nothing: the scheduler configuration's; without one, spread."""
    metrics_bind_address: Address = Address("", 9395)
    node_label_selector: dict[str, str] = {}
    kube_qps: float | None = None
    """Nothing: no limit."""
    kube_burst: int | None = None
    """Nothing: twice the rate."""
    kube_timeout: int = 0
    """0 is no limit."""
    profiling: bool = False
    node_lock_timeout: float = 300
    node_lock_retry_timeout: float = 28
    force_overwrite_default_scheduler: bool = True
    leader_elect: bool = False
    leader_elect_resource_name: str = ""
    leader_elect_resource_namespace: str = ""
    legacy_metrics: bool = False
    device_config_file: str = ""
    enable_ascend: bool = False
    enable_iluvatar: bool = False
    debug: bool = False
    placement: Literal["extender", "kube-scheduler"] = "extender"
    privileged_pods: Literal["skip", "deny"] = "skip"
    reservation_timeout: float = 60
    config: str = ""
    kubeconfig: str = ""
    context: str = ""
    device_flags: DeviceFlags = DeviceFlags()
    warnings: tuple[str, ...] = ()
    """What was given and does nothing, or slows binds down."""


def flag(name: str) -> str:
    """How a field is written on the command line."""
    return "--" + name.replace("_", "-")
