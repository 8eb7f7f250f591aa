"""Reservations of an extender in memory, and the questions that kube-scheduler asks it."""

import json

import msgspec

from tests.scenario import pod
from tonnage.extender.protocol import FilterArgs, read
from tonnage.extender.reservations import Reservations
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins


def named(name, uid="1", **wants):
    wanted = pod(name, **wants)
    return msgspec.structs.replace(wanted, metadata=msgspec.structs.replace(wanted.metadata, uid=uid))


def reservations(cluster, **more):
    plugins = default_plugins()
    return Reservations(Session(cluster, plugins), plugins, **more)


def asked(wanted, *names, nodes=None):
    document = {"Pod": msgspec.to_builtins(wanted), "Nodes": nodes, "NodeNames": list(names) or None}
    return read(json.dumps(document).encode(), FilterArgs)
