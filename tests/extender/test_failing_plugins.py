"""Plugins of the scheduler that fail while the extender runs: it is said once of each, and why."""

import logging
from unittest.mock import Mock

from tests.extender.asking import asked, named
from tests.extender.failing import Breaks
from tests.extender.recording import Api
from tests.kube.live import QUICK
from tests.scenario import node
from tonnage.devices.catalog import default_vendors
from tonnage.extender.service import ExtenderService
from tonnage.plugins.defaults import default_plugins


def test_a_plugin_that_fails_is_said_once_and_decisions_go_on(caplog):
    service = ExtenderService(Api(), default_vendors(), [*default_plugins(), Breaks()], QUICK, Mock(), bytes)
    for name in ("a", "b"):
        service.cluster.upsert_node(node(name, gpus=2))
    with caplog.at_level(logging.WARNING, "tonnage.extender.service"):
        service._log_failing_plugins()
        assert caplog.messages == []
        for name in ("p", "q"):
            assert service.reservations.filter(asked(named(name, gpus=1), "a", "b"), 0).result.node_names
            service._log_failing_plugins()
    (message,) = caplog.messages
    assert message.startswith("plugin breaks fails: ")
    assert "ZeroDivisionError" in message
