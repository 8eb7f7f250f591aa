"""A new configuration while the scheduler runs: taken over between two cycles, or refused with the reason."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from tests import virtualtime
from tests.kube.fake_server import FakeServer, fake_server
from tests.kube.live import QUICK, run
from tests.scenario import node, pod
from tests.scheduler.watching import NOW, Watching
from tests.waiting import until_true
from tonnage.actions.catalog import make_actions
from tonnage.cluster.cluster import Cluster
from tonnage.config.load import load_text
from tonnage.config.notes import ConfigError
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session, SessionError
from tonnage.kube.client import connect
from tonnage.observability.events import CONFIGURATION_REFUSED, WARNINGS, ObjectRef
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.scoring.nodepolicy import NodePolicy
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.reload.reloader import Configuration, Reloader
from tonnage.scheduler.reload.sources import ConfigMapSource, Content, FileSource, MapName, map_name

BINPACK = "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n"
TYPO = "actions: alocate\ntiers: []\n"
MAPS = "/api/v1/namespaces/tonnage/configmaps"


# -- deciding


class FailsToOpen(NodePolicy):
    """Opens where there are no nodes, as when a configuration is loaded."""

    name = "fails-to-open"
    closed: ClassVar[list[str]] = []

    def on_session_open(self, session: Session) -> None:
        if session.cluster.nodes:
            raise ZeroDivisionError("no nodes, please")

    def on_session_close(self, session: Session) -> None:
        self.closed.append(self.name)


def test_new_plugins_decide_from_the_next_cycle_on_and_nothing_reserved_is_lost() -> None:
    live = Watching(default_plugins(), things=[node("a", gpus=1), node("b", gpus=1), pod("p", 1, memory=4000)])
    assert [decision.node for decision in live.decide()] == ["a"]
    live.cycle_runner.configure(default_plugins(node_policy="spread"), make_actions(), NOW)
    assert live.cluster.reserved.keys() == {"default/p"}
    live.tell(pod("q", 1, memory=4000))
    assert [decision.node for decision in live.decide()] == ["b"], "packed, it would join the first"
    live.cycle_runner.release("default/p")
    assert live.cluster.waiting.keys() == {"default/p"}


def test_new_actions_are_those_that_run() -> None:
    live = Watching(default_plugins(), things=[node("a", gpus=1), pod("p", 1, memory=4000)])
    live.cycle_runner.configure(default_plugins(), make_actions(["backfill"]), NOW)
    (decision,) = live.decide()
    assert decision.why_not().startswith("NotConsidered")


def test_plugins_that_cannot_be_opened_on_this_cluster_change_nothing() -> None:
    live = Watching(default_plugins(), things=[node("a", gpus=1), pod("p", 1, memory=4000)])
    with pytest.raises(SessionError, match="fails-to-open cannot be opened: ZeroDivisionError: no nodes, please"):
        live.cycle_runner.configure([*default_plugins(), FailsToOpen()], make_actions(["backfill"]), NOW)
    assert FailsToOpen.closed == ["fails-to-open"]
    assert [decision.node for decision in live.decide()] == ["a"]


# -- reloading


Load = Callable[[str, str], Configuration]


def loaded(text: str, name: str) -> Configuration:
    return Configuration(text, load_text(text, name).plugins, ())


class Desk:
    """A scheduler as far as a new configuration concerns it, and everything that is told."""

    def __init__(self, about: ObjectRef | None = None, pod: str = "", load: Load = loaded) -> None:
        self.name, self.about = "config.yaml", about
        self.events = self
        self.told: list[tuple[ObjectRef, str, str]] = []
        self.configured: list[list[str]] = []
        self.cluster = Cluster(())
        self.metrics = SchedulerMetrics()
        first = Configuration(BINPACK, (), ())
        self.reloader = Reloader(first, None, load, self, self.metrics, pod)  # type: ignore[arg-type]

    def configure(self, plugins: list[Plugin], actions: object) -> None:
        if any(isinstance(plugin, FailsToOpen) for plugin in plugins):
            raise SessionError("plugin fails-to-open cannot be opened")
        self.configured.append([plugin.name for plugin in plugins])

    def record(self, about: ObjectRef, reason: str, message: str) -> None:
        self.told.append((about, reason, message))

    def look_at(self, *contents: Content) -> None:
        for content in contents:
            self.reloader.apply(content, self)  # type: ignore[arg-type]

    def counted(self, outcome: str) -> float | None:
        return self.metrics.registry.get_sample_value("tonnage_config_reloads_total", {"outcome": outcome})

    @property
    def taken_at(self) -> float | None:
        return self.metrics.registry.get_sample_value("tonnage_config_last_reload_success_timestamp_seconds")


A_MAP = ObjectRef("tonnage", "batch", "uid-1", "ConfigMap")


def test_a_good_one_is_taken() -> None:
    desk = Desk()
    before = desk.taken_at
    desk.look_at(BINPACK)
    assert not desk.configured, "it is in force already"
    text = BINPACK + "  - name: gang\n"
    desk.look_at(text, text)
    assert len(desk.configured) == 1
    assert "gang" in desk.configured[0]
    assert desk.reloader.in_force.text == text
    assert (desk.counted("taken"), desk.counted("refused")) == (1, 0)
    assert desk.taken_at is not None
    assert before is not None
    assert desk.taken_at >= before
    assert desk.told == []


def test_a_bad_one_is_refused_once_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(A_MAP)
    with caplog.at_level(logging.INFO):
        desk.look_at(TYPO, TYPO)
    ((about, reason, message),) = desk.told
    assert (about, reason) == (A_MAP, CONFIGURATION_REFUSED)
    assert reason in WARNINGS
    assert "config.yaml:1:10: there is no action alocate; did you mean allocate?" in message
    (line,) = caplog.messages
    assert message.partition(": ")[2] in line
    assert desk.configured == []
    assert desk.reloader.in_force.text == BINPACK
    assert (desk.counted("taken"), desk.counted("refused")) == (0, 1)


def test_after_a_bad_one_the_one_in_force_is_nothing_new_and_another_bad_one_is() -> None:
    desk = Desk(A_MAP)
    desk.look_at(TYPO, BINPACK, TYPO.replace("alocate", "alloc"))
    assert desk.configured == []
    assert desk.counted("refused") == 2
    assert len(desk.told) == 2


def test_plugins_that_fail_on_this_cluster_are_refused() -> None:
    desk = Desk(A_MAP, load=lambda text, name: Configuration(text, [FailsToOpen()], ()))
    desk.look_at("anything")
    (told,) = desk.told
    assert told[2] == "the configuration in force stays: config.yaml: plugin fails-to-open cannot be opened"
    assert desk.reloader.in_force.text == BINPACK


def test_whatever_a_plugin_does_while_it_is_made_the_scheduler_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def load(text: str, name: str) -> Configuration:
        raise RuntimeError("surprise")

    desk = Desk(A_MAP, load=load)
    desk.look_at("anything")
    assert desk.told[0][2] == "the configuration in force stays: config.yaml: RuntimeError: surprise"
    assert "Traceback" in caplog.text


def test_what_a_file_holds_is_told_at_the_schedulers_own_pod() -> None:
    desk = Desk(pod="default/me")
    desk.look_at(TYPO)
    assert desk.told[0][0] == ObjectRef("default", "me", ""), "it is not in the picture"
    desk = Desk(pod="default/me")
    me = pod("me", on="a")
    desk.cluster.upsert_pod(replace(me, metadata=replace(me.metadata, uid="uid-me")))
    desk.look_at(TYPO)
    assert desk.told[0][0] == ObjectRef("default", "me", "uid-me")
    nameless = Desk()
    nameless.look_at(TYPO)
    assert nameless.told == []
    assert nameless.counted("refused") == 1


# -- files


class Followed:
    """What a source gives, as it comes."""

    def __init__(self) -> None:
        self.contents: list[Content] = []

    async def follow(self, source: FileSource | ConfigMapSource) -> None:
        async with aclosing(source.contents()) as contents:
            async for content in contents:
                self.contents.append(content)

    @property
    def texts(self) -> list[str]:
        return [str(content) for content in self.contents]


@asynccontextmanager
async def followed(source: FileSource | ConfigMapSource) -> AsyncIterator[Followed]:
    found = Followed()
    task = asyncio.create_task(found.follow(source))
    try:
        await until_true(lambda: bool(found.contents))
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_mounted_config_map_changes_by_a_link_that_is_swapped(tmp_path: Path) -> None:
    for version, text in enumerate(("one", "two")):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "config.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("..0")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")

    async def main() -> None:
        async with followed(FileSource(str(tmp_path / "config.yaml"), 0.02)) as found:
            (tmp_path / "..next").symlink_to("..1")
            (tmp_path / "..next").rename(tmp_path / "..data")
            await until_true(lambda: len(found.contents) == 2)
            await asyncio.sleep(0.1)
            assert found.contents == ["one", "two"]

    virtualtime.run(main())


def test_a_file_that_is_gone_or_no_text_is_an_error_and_may_come_back(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("one")

    async def main() -> None:
        async with followed(FileSource(str(path), 0.02)) as found:
            path.unlink()
            await until_true(lambda: len(found.contents) == 2)
            path.write_bytes(b"\xff\xff\xff")
            await until_true(lambda: len(found.contents) == 3)
            path.write_text("two")
            await until_true(lambda: len(found.contents) == 4)
            assert [type(content) for content in found.contents] == [str, ConfigError, ConfigError, str]
            assert found.texts[1].startswith(f"{path}: there is no such file")
            assert found.texts[2].startswith(f"{path}:1:1: not UTF-8")

    virtualtime.run(main())


def test_a_file_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("one")

    async def main() -> None:
        async with followed(FileSource(str(path), 0.05)) as found:
            for length in range(12):
                path.write_text("x" * length)
                await asyncio.sleep(0.01)
            path.write_text("whole")
            await until_true(lambda: found.texts[-1] == "whole")
            assert len(found.contents) <= 3, found.texts

    virtualtime.run(main())


# -- ConfigMaps


def put(server: FakeServer, **data: Any) -> None:
    keys = {key.replace("_", "."): text for key, text in data.items()}
    server.put_plain(MAPS, {"metadata": {"name": "batch", "namespace": "tonnage"}, "data": keys})


def test_a_config_map_is_watched(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_server() as server:
            server.served.add(MAPS)
            put(server, config_yaml="one")
            client = await connect(server.kubeconfig(tmp_path))
            source = ConfigMapSource(client, MapName("tonnage", "batch"), QUICK)
            async with followed(source) as found:
                put(server, config_yaml="two", other="x")
                await until_true(lambda: len(found.contents) == 2)
                put(server, other="x")
                await until_true(lambda: len(found.contents) == 3)
                put(server, config_yaml=7)
                await until_true(lambda: len(found.contents) == 4)
                server.delete(MAPS, "batch")
                await until_true(lambda: len(found.contents) == 5)
                put(server, config_yaml="three")
                await until_true(lambda: len(found.contents) == 6)
            await client.close()
            assert [type(content) for content in found.contents] == [str, str, *[ConfigError] * 3, str]
            assert "must hold one of volcano-scheduler.conf and config.yaml" in found.texts[2]
            assert "Expected `str`, got `int`" in found.texts[3]
            assert found.texts[4] == "configmap:tonnage/batch: there is no ConfigMap batch in namespace tonnage"
            assert source.about == ObjectRef("tonnage", "batch", "uid-batch", "ConfigMap")
            assert {query["fieldSelector"] for path, query in server.asked if path == MAPS} == {"metadata.name=batch"}

    run(main())


def test_a_config_map_that_does_not_exist_yet_is_an_error_until_it_does(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_server() as server:
            server.served.add(MAPS)
            client = await connect(server.kubeconfig(tmp_path))
            source = ConfigMapSource(client, MapName("tonnage", "batch", "mine"), QUICK)
            with pytest.raises(ConfigError, match="there is no ConfigMap batch in namespace tonnage"):
                await source.read()
            async with followed(source) as found:
                put(server, config_yaml="one")
                await until_true(lambda: len(found.contents) == 2)
                put(server, mine="two")
                await until_true(lambda: len(found.contents) == 3)
            await client.close()
            assert found.texts[1] == (
                "configmap:tonnage/batch/mine: the ConfigMap has no key mine; it holds config.yaml"
            )
            assert found.contents[2] == "two"

    run(main())


def test_which_config_map_is_meant() -> None:
    assert map_name("config.yaml") is None
    assert map_name("configmap:tonnage/batch") == MapName("tonnage", "batch")
    assert map_name("configmap:tonnage/batch/a.yaml") == MapName("tonnage", "batch", "a.yaml")
    for wrong in ("configmap:", "configmap:batch", "configmap:/batch", "configmap:a/b/c/d", "configmap:a//c"):
        with pytest.raises(ValueError, match="names no ConfigMap; expected configmap:NAMESPACE/NAME"):
            map_name(wrong)
