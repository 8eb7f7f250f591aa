"""What a plugin imports: everything its author needs, in one place."""

from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.jobs.queue import Queue
from tonnage.cluster.task import Task
from tonnage.config.finder import register_plugin
from tonnage.framework.decision import Reason
from tonnage.framework.nodesets import NodeSet, NodeSets
from tonnage.framework.pernode import NodeView
from tonnage.framework.plugin import ArgumentError, FileContent, Plugin, PluginArguments, Pull
from tonnage.framework.session import Session

__all__ = [
    "ArgumentError",
    "Array",
    "FileContent",
    "Job",
    "NodeSet",
    "NodeSets",
    "NodeView",
    "Nodes",
    "Plugin",
    "PluginArguments",
    "PodStatus",
    "Pull",
    "Queue",
    "Reason",
    "Session",
    "Task",
    "register_plugin",
]
