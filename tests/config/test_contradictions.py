"""Configurations that cancel themselves out are told so, with figures."""

import pytest

from tests.config.texts import VOLCANO_HELM, errors, warnings, with_plugin
from tonnage.api import Plugin, Pull, Session
from tonnage.config import finder


def cancelling(*plugins: str) -> list[str]:
    text = "actions: allocate\ntiers:\n- plugins:\n" + "".join(f"  - {plugin}\n" for plugin in plugins)
    return [line for line in warnings(text) if "cancel each other out" in line]


def test_volcanos_helm_default_cancels_itself_out() -> None:
    (said,) = (line for line in warnings(VOLCANO_HELM) if "cancel" in line)
    assert said.startswith("FILE:15:11: nodeorder with leastrequested.weight 1 and binpack of weight 1 cancel")
    assert "25% full scores 75 + 25 = 100, one that is 75% full 25 + 75 = 100" in said
    assert said.endswith("change one of the weights")


def test_binpack_beside_least_allocated() -> None:
    (said,) = cancelling("name: binpack", "name: noderesourcesfit")
    assert "25 + 75 = 100" in said


def test_negative_binpack_beside_most_allocated() -> None:
    (said,) = cancelling(
        "{name: binpack, arguments: {binpack.weight: -2}}",
        "{name: noderesourcesfit, arguments: {weight: 2, scoringStrategy: {type: MostAllocated}}}",
    )
    assert "-50 + 50 = 0" in said
    assert "-150 + 150 = 0" in said


@pytest.mark.parametrize(
    "plugins",
    [
        ["{name: binpack, arguments: {binpack.weight: 5}}", "name: nodeorder"],
        ["name: binpack", "{name: nodeorder, arguments: {leastrequested.weight: 0}}"],
        ["name: binpack", "{name: nodeorder, arguments: {leastrequested.weight: 1, mostrequested.weight: 1}}"],
        ["{name: binpack, enableNodeOrder: false}", "name: nodeorder"],
        ["name: binpack", "{name: noderesourcesfit, arguments: {scoringStrategy: {type: MostAllocated}}}"],
        [
            "{name: binpack, arguments: {binpack.cpu: 0, binpack.memory: 0, binpack.resources: nvidia.com/gpu}}",
            "name: noderesourcesfit",
        ],
        ["{name: binpack, arguments: {binpack.cpu: 3}}", "name: noderesourcesfit"],
        ["{name: binpack, arguments: {binpack.weight: 0}}", "name: noderesourcesfit"],
    ],
)
def test_what_does_not_cancel_is_not_said_to(plugins: list[str]) -> None:
    assert cancelling(*plugins) == []


def test_a_type_that_is_no_text_is_an_error_and_nothing_worse() -> None:
    (said,) = errors(with_plugin("noderesourcesfit", "arguments: {scoringStrategy: {type: [x]}}"))
    assert "scoringStrategy.type" in said


class Theirs(Plugin):
    """A plugin of somebody else, which pulls pods apart as strongly as binpack pulls them together."""

    name = "theirs"

    def on_session_open(self, session: Session) -> None:
        pass

    def pull(self) -> Pull | None:
        return Pull("theirs", -1, 1, {"cpu": 1, "memory": 1, "x.io/y": 0})


class Raising(Theirs):
    def pull(self) -> Pull | None:
        raise RuntimeError("boom")


class Confused(Theirs):
    def pull(self) -> Pull | None:
        return Pull("theirs", -1, 1, {"cpu": "much"})  # type: ignore[dict-item]


class Loose(Theirs):
    def pull(self) -> Pull | None:
        return 5  # type: ignore[return-value]


def test_a_plugin_of_somebody_else_may_say_how_it_pulls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finder, "_registered", {"theirs": Theirs})
    (said,) = cancelling("name: theirs", "{name: binpack, arguments: {binpack.resources: x.io/y}}")
    assert "theirs and binpack of weight 1 cancel each other out" in said
    assert "75 + 25 = 100" in said


@pytest.mark.parametrize(
    ("kind", "why"), [(Raising, "RuntimeError: boom"), (Confused, "ValueError: "), (Loose, "AttributeError: ")]
)
def test_one_that_fails_to_say_so_is_named_and_the_file_is_used(
    monkeypatch: pytest.MonkeyPatch, kind: type[Plugin], why: str
) -> None:
    monkeypatch.setattr(finder, "_registered", {"theirs": kind})
    text = "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n  - name: theirs\n  - name: noderesourcesfit\n"
    told, cancelled = (line for line in warnings(text) if "pull" in line or "cancel each other out" in line)
    assert told.startswith(f"FILE:5:11: theirs does not say how it pulls pods together or apart: {why}")
    assert "binpack of weight 1 and noderesourcesfit with LeastAllocated cancel each other out" in cancelled
