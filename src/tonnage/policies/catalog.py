"""The catalog of admission policies: the files of policies, each with what it holds."""

from collections.abc import Callable
from typing import NamedTuple

from tonnage.manifests.output import as_yaml
from tonnage.policies.accounts import server_accounts
from tonnage.policies.agentaccount import agent_account
from tonnage.policies.documents import Document
from tonnage.policies.nodenames import node_names
from tonnage.policies.options import PolicyOptions
from tonnage.policies.priorityclasses import priority_classes
from tonnage.policies.queues import namespace_queues
from tonnage.policies.reservedkeys import reserved_keys
from tonnage.policies.writers import writers


class PolicyFile(NamedTuple):
    """Documents that are applied together."""

    name: str
    summary: str
    documents: Callable[[PolicyOptions], list[Document]]
    is_optional: bool = False
    """Whether it must be asked for."""

    def text(self, options: PolicyOptions) -> str:
        """The file."""
        header = f"# {self.summary}\n# Printed by `tonnage manifests policies {self.name}`.\n"
        return header + as_yaml(self.documents(options))


FILES = (
    PolicyFile("writers", "Who may do what schedulers and device plugins do: one user or group per line.", writers),
    PolicyFile("reserved-keys", "Only schedulers and device plugins write what devices pods have.", reserved_keys),
    PolicyFile("server-accounts", "Tonnage's servers change only the metadata that they write.", server_accounts),
    PolicyFile("priority-classes", "PodGroups outside kube-system name no system-* priority class.", priority_classes),
    PolicyFile("node-names", "Only schedulers create pods with devices on a node of their choice.", node_names),
    PolicyFile("agent-account", "Agents change only the metadata that they write, on their node.", agent_account),
    PolicyFile("queues", "A namespace uses only the queues that its labels allow.", namespace_queues, is_optional=True),
)
