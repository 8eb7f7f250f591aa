"""Reloader: the configuration in force, and its replacement while the scheduler runs.

A new configuration is opened on the cluster as it is. If it cannot be used, the one in force stays, and an Event, a
metric and the log say so, once for each content.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from tonnage.config.notes import ConfigError
from tonnage.framework.action import Action
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import SessionError
from tonnage.observability.events import CONFIGURATION_REFUSED, ObjectRef
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.service import SchedulerService

if TYPE_CHECKING:
    # What reads YAML is not imported where no configuration is given.
    from tonnage.scheduler.reload.sources import ConfigSource, Content

log = logging.getLogger(__name__)

TAKEN, REFUSED = "taken", "refused"


class Configuration:
    """A configuration: its text, and the plugins and actions made of it."""

    def __init__(
        self,
        text: str | Callable[[], str],
        plugins: Sequence[Plugin],
        actions: Sequence[Action],
        warnings: Sequence[str] = (),
    ) -> None:
        self._text = text
        """Or what writes it, if nobody has given a text: few ask for that."""
        self.plugins = plugins
        self.actions = actions
        self.warnings = warnings

    @property
    def text(self) -> str:
        if not isinstance(self._text, str):
            self._text = self._text()
        return self._text


class Reloader:
    """Applies new configurations while `run` runs; without a source there are none."""

    def __init__(
        self,
        first: Configuration,
        source: "ConfigSource | None",
        load: Callable[[str, str], Configuration],
        service: SchedulerService,
        metrics: SchedulerMetrics,
        pod: str = "",
    ) -> None:
        self.in_force = first
        self._source = source
        self._load = load
        """Makes a configuration of a text and the name for messages; ConfigError with all that is wrong."""
        self._service = service
        self._metrics = metrics
        self._pod = pod
        """The namespace and name of this process's own pod; empty if unknown."""
        self._seen = ("" if source is None else first.text), ""
        """The last text, and why there was none."""
        for outcome in (TAKEN, REFUSED):
            metrics.config_reloads.labels(outcome)
        metrics.config_reloaded.set(time.time())

    async def run(self) -> None:
        """Follow the source until cancelled, once the cluster's state is complete."""
        if self._source is None:
            return
        await self._service.ready.wait()
        async with aclosing(self._source.contents()) as contents:
            async for content in contents:
                self.apply(content, self._source)

    def apply(self, content: "Content", source: "ConfigSource") -> None:
        """Apply the content of the source if it is new and can be used."""
        seen = (content, "") if isinstance(content, str) else ("", str(content))
        if seen == self._seen:
            return
        self._seen = seen
        if content == self.in_force.text:
            log.info("%s holds the configuration in force again", source.name)
            return
        try:
            if isinstance(content, ConfigError):
                raise content
            found = self._load(content, source.name)
            self._service.configure(found.plugins, found.actions)
        except ConfigError as error:
            self._refuse(str(error), source)
        except SessionError as error:
            self._refuse(f"{source.name}: {error}", source)
        except Exception as error:
            # Plugins of others may raise anything while they are made.
            log.exception("%s: the configuration cannot be loaded", source.name)
            self._refuse(f"{source.name}: {type(error).__name__}: {error}", source)
        else:
            self.in_force = found
            self._metrics.config_reloads.labels(TAKEN).inc()
            self._metrics.config_reloaded.set(time.time())
            for warning in found.warnings:
                log.warning("%s", warning)
            log.info("%s: the new configuration is in force", source.name)

    def _refuse(self, why: str, source: "ConfigSource") -> None:
        self._metrics.config_reloads.labels(REFUSED).inc()
        log.error("the new configuration is refused, the one in force stays: %s", why)
        about = source.about or self._own_pod()
        if about is not None:
            self._service.events.record(about, CONFIGURATION_REFUSED, f"the configuration in force stays: {why}")

    def _own_pod(self) -> ObjectRef | None:
        """The pod of this process, with its UID if the cluster has it."""
        if not self._pod:
            return None
        namespace, _, name = self._pod.partition("/")
        task = self._service.cluster.running.get(self._pod)
        return ObjectRef(namespace, name, (task.uid if task is not None else None) or "")
