"""Public API for plugin authors: every name that docs/plugins.md teaches, and no other.

What is imported from here keeps its meaning from release to release. All other modules of Tonnage are internal and may
change at any time; a plugin that needs something which is not here should ask for it to be added.
"""

from tonnage.cluster.cluster import Grant
from tonnage.cluster.columns import CORES, MEMORY, SLOTS, Array, Cards, Nodes
from tonnage.cluster.holding import VolumeReservation
from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.jobs.queue import Queue
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.config.finder import register_plugin
from tonnage.devices.base import DeviceRequest, DeviceUse
from tonnage.framework.classfit import FITS, MAYBE
from tonnage.framework.decision import Decision, DecisionOutcome, Reason
from tonnage.framework.nodesets import NodeSet, NodeSets
from tonnage.framework.pernode import NodeView
from tonnage.framework.plugin import ArgumentError, FileContent, Plugin, PluginArguments, PluginOptions, Pull
from tonnage.framework.points import UNCONCERNED, Reads, VictimQueues
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement

__all__ = [
    "CORES",
    "FITS",
    "MAYBE",
    "MEMORY",
    "SLOTS",
    "UNCONCERNED",
    "ArgumentError",
    "Array",
    "Cards",
    "Decision",
    "DecisionOutcome",
    "DeviceRequest",
    "DeviceUse",
    "FileContent",
    "Grant",
    "Job",
    "NodeSet",
    "NodeSets",
    "NodeState",
    "NodeView",
    "Nodes",
    "Plugin",
    "PluginArguments",
    "PluginOptions",
    "PodStatus",
    "Pull",
    "Queue",
    "Reads",
    "Reason",
    "Session",
    "Statement",
    "Task",
    "VictimQueues",
    "VolumeReservation",
    "register_plugin",
]
