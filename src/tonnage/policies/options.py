"""PolicyOptions: the vendors and accounts for which admission policies are made."""

import msgspec

from tonnage.devices.base import Vendor
from tonnage.policies.keys import MetadataKey, registry

HAMI_USERS = (
    "system:serviceaccount:kube-system:hami-ascend",
    "system:serviceaccount:kube-system:hami-device-plugin",
    "system:serviceaccount:kube-system:hami-scheduler",
)
"""The users of HAMi's chart, installed as `hami` in kube-system, where no tenant can create them."""

AGENT_USER = "system:serviceaccount:tonnage-agent:tonnage-agent"
"""The user that the agents of all nodes are; their pods need rights that the servers' namespace refuses."""


class PolicyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the policies depend on."""

    vendors: tuple[Vendor, ...]
    namespace: str = "tonnage"
    """Of the servers' service accounts and of the policies' parameters."""
    extender_account: str = "tonnage-extender"
    scheduler_account: str = "tonnage-scheduler"
    agent_user: str = AGENT_USER
    users: tuple[str, ...] = HAMI_USERS
    """Writers besides the two servers and the agents."""
    groups: tuple[str, ...] = ()
    enforce: bool = False

    @property
    def servers(self) -> tuple[str, ...]:
        """The users that the two servers are."""
        accounts = self.extender_account, self.scheduler_account
        return tuple(f"system:serviceaccount:{self.namespace}:{account}" for account in accounts)

    @property
    def keys(self) -> tuple[MetadataKey, ...]:
        return registry(self.vendors)
