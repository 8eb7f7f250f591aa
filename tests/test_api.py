"""`tonnage.api` is enough to write a plugin of every documented kind."""

import ast
import re
from pathlib import Path

import pytest

from tests import api_plugins
from tests.api_plugins import ChoosesCards, Listener, OneNode, Orders, Shares, make_room
from tests.cli.command import ROOT
from tests.scenario import cards, node, pod, reasons, running, scenario
from tonnage import api
from tonnage.actions.catalog import make_actions
from tonnage.cluster.task import make_task
from tonnage.config.finder import PluginFinder
from tonnage.framework.cycle import run_cycle
from tonnage.framework.points import POINTS
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins

BLUE = {"pool": "blue"}


def imported(source: str) -> set[str]:
    """The modules of Tonnage that some source imports."""
    found: set[str] = set()
    for part in ast.walk(ast.parse(source)):
        match part:
            case ast.Import(names=names):
                found |= {name.name for name in names}
            case ast.ImportFrom(module=str(module)):
                found.add(module)
    return {module for module in found if module.partition(".")[0] in ("tonnage", "tests")}


def test_the_plugins_here_import_nothing_else() -> None:
    source = Path(api_plugins.__file__).read_text()
    assert imported(source) == {"tonnage.api"}


def test_the_page_about_plugins_imports_nothing_else() -> None:
    page = (ROOT / "docs/plugins.md").read_text()
    assert not re.findall(r"`tonnage\.(?!api\b|plugins`)[\w.]+`", page)
    for example in (ROOT / "examples/plugins").glob("*/*.py"):
        assert imported(example.read_text()) == {"tonnage.api"}, example.name


def test_all_that_is_exported_is_on_the_page() -> None:
    page = (ROOT / "docs/plugins.md").read_text()
    assert [name for name in api.__all__ if not re.search(rf"\b{name}\b", page)] == []


def test_every_extension_point_can_be_used() -> None:
    with Session(scenario(node("a", labels=BLUE)), [kind() for kind in api_plugins.PLUGINS]) as session:
        assert {point for _, point in session.registered} == {point.name for point in POINTS}


def test_a_cycle_with_all_of_them() -> None:
    tasks = [pod("one", gpus=1, memory=1000), pod("stranger", gpus=1), pod("greedy", gpus=1)]
    cluster = scenario(node("a", gpus=2, labels=BLUE), node("b", gpus=2), node("odd", gpus=2, labels=BLUE), *tasks)
    plugins = [kind() for kind in api_plugins.PLUGINS]
    with Session(cluster, plugins) as session:
        decided = {decision.task.name: decision for decision in run_cycle(session, make_actions(("allocate",)))}
        assert session.problems() == []
        assert decided["one"].node == "a"
        assert cards(decided["one"]) == ["a/0"]
        assert reasons(decided["greedy"]) == {"Greedy": 3}
        assert decided["stranger"].node is None
        assert [plugin.counts for plugin in plugins if isinstance(plugin, Listener)] == [{"default": 1}]


def test_plugins_that_look_at_nodes_say_why_not() -> None:
    cluster = scenario(node("a", gpus=1, labels=BLUE), node("b"), node("odd", labels=BLUE))
    with Session(cluster, [OneNode(), api_plugins.AllNodes()]) as session:
        decision = session.decide(make_task(pod("p"), cluster.vendors))
        assert decision.node == "a"
        assert reasons(decision) == {"OtherPool": 1, "Odd": 1}
        assert decision.scores["a"]["total"] == 12


def test_cards_are_chosen_beside_the_built_in_plugins() -> None:
    cluster = scenario(node("a", gpus=3))
    with Session(cluster, [*default_plugins(), ChoosesCards()]) as session:
        assert cards(session.decide(make_task(pod("p", gpus=1, memory=1000), cluster.vendors))) == ["a/2"]
        assert session.decide(make_task(pod("q", gpus=3, memory=1000), cluster.vendors)).node is None


def test_room_is_made_in_a_statement() -> None:
    cluster = scenario(node("a", gpus=1), running("low", on="a", gpu=0, memory=8000), pod("high", gpus=1, memory=8000))
    with Session(cluster, default_plugins()) as session:
        decision = make_room(session, cluster.waiting["default/high"], cluster.running["default/low"])
        assert decision.node == "a"
        assert session.evictions == []


def test_a_veto_spares_a_pod() -> None:
    cluster = scenario(node("a"), running("spared", on="a", gpu=0), running("other", on="a", gpu=0), pod("p"))
    with Session(cluster, [Shares()]) as session:
        job = session.job_of(cluster.waiting["default/p"])
        assert [task.name for task in session.jobs.preemptable(job, list(cluster.running.values()))] == ["other"]


def test_a_switch_of_its_own_reaches_a_plugin() -> None:
    backwards = Orders().with_options(switched_on=Orders.switches)
    cluster = scenario(node("a"), pod("p"), pod("q"))
    for plugin, first in ((Orders(), "p"), (backwards, "q")):
        with Session(cluster, [plugin]) as session:
            assert session.jobs.ordered_tasks(cluster.waiting.values())[0].name == first


def test_a_registered_plugin_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tonnage.config.finder._registered", {})
    api_plugins.register()
    assert PluginFinder().find(Listener.name) is Listener
