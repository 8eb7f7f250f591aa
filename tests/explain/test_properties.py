"""Whatever the cluster is like: every suggestion does place the pod, and asking changes nothing."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.config.texts import load
from tests.explain.applying import NOW, built, place_after
from tests.explain.asking import KAI, VOLCANO
from tests.groups import group, members
from tests.paths import ROOT
from tests.plan.defrag.planning import kept
from tests.properties.comparing import assert_same, snapshot
from tests.properties.crowds import ACTIONS, VOLCANOS_ACTIONS, Crowd, plugins, worlds
from tests.properties.worlds import POLICIES, examples, nodes, phases, pods, running_pods
from tests.scenario import node
from tonnage.cluster.jobs.group import VOLCANO_GROUP
from tonnage.explain.record import ExplainedKind, Explanation
from tonnage.framework.plugin import Plugin
from tonnage.plan.defrag.moves import make_explainer
from tonnage.plugins.defaults import default_plugins


def everything(cluster: Any) -> dict[str, object]:
    cluster.settle()
    keys = {name: list(getattr(cluster, name)) for name in ("waiting", "reserved", "running")}
    return snapshot(cluster) | keys | {"leaving": sorted(cluster.leaving)}


def check_all(objects: Sequence[Any], made: Sequence[Plugin], actions: Sequence[str]) -> list[Explanation]:
    """Ask about every waiting pod, and follow every suggestion on objects of its own."""
    cluster = built(objects, NOW)
    before = everything(cluster)
    answers: list[Explanation] = []
    for key in sorted(cluster.waiting):
        found = make_explainer(cluster, made, actions).explain(ExplainedKind.POD, key)
        answers.append(found)
        assert_same(before, everything(cluster))
        for one in found.suggestions:
            place = place_after(objects, made, actions, found, one)
            assert place, f"{key}: {one.sentence}: {one.patch or one.group or one.ends}"
            if one.kind not in ("end", "preemption"):
                assert place == one.places, one.sentence
    return answers


@settings(max_examples=examples(25), deadline=None, phases=phases())
@given(
    st.lists(nodes(), max_size=4, unique_by=lambda node: node.name),
    st.lists(running_pods(), max_size=5, unique_by=lambda pod: pod.key),
    st.lists(pods(), min_size=1, max_size=3, unique_by=lambda pod: pod.key),
)
def test_every_suggestion_places_the_pod(found, held, wanted):
    taken = {pod.key for pod in held}
    check_all([*found, *held, *(pod for pod in wanted if pod.key not in taken)], default_plugins(), ["allocate"])


@settings(max_examples=examples(25), deadline=None, phases=phases())
@given(worlds)
def test_every_suggestion_places_the_pods_of_gangs_in_queues(world):
    actions = ACTIONS if world["rules"] == "kai" else VOLCANOS_ACTIONS
    check_all(Crowd(world).objects(), plugins(world), actions)


@st.composite
def scattered(draw):
    """Nodes whose cards are free here and there, between pods of controllers, and jobs that want more of them."""
    objects, gangs = [], []
    for number in range(draw(st.integers(2, 4))):
        on, cards = f"n{number}", draw(st.integers(1, 3))
        objects.append(node(on, gpus=cards, cpu="8"))
        for card in range(cards):
            size = draw(st.sampled_from([0, 0, 4000, 8000]))
            if size:
                gang = draw(st.sampled_from(["", "", "", "g0", "g1"]))
                gangs += [gang] if gang else []
                about = {
                    "owner": draw(st.sampled_from(["ReplicaSet"] * 4 + [""])),
                    "annotations": {VOLCANO_GROUP: gang} if gang else {},
                    "priority": draw(st.sampled_from([0, 0, 9])),
                    "hours": draw(st.integers(0, 40)),
                }
                objects.append(kept(f"p{number}-{card}", on=on, gpu=card, memory=size, **about))
    objects += [group(gang, draw(st.integers(1, gangs.count(gang)))) for gang in sorted(set(gangs))]
    for number in range(draw(st.integers(1, 2))):
        count, name = draw(st.integers(1, 3)), f"w{number}"
        size, priority = draw(st.sampled_from([4000, 8000])), draw(st.sampled_from([0, 5]))
        objects.append(group(name, draw(st.integers(1, count)), created=f"2026-01-0{number + 1}T00:00:00Z"))
        objects += members(name, count, draw(st.integers(1, 3)), memory=size, priority=priority)
    return objects


@settings(max_examples=examples(40), deadline=None, phases=phases())
@given(scattered(), st.sampled_from([VOLCANO, KAI]))
def test_every_move_places_the_pod_and_those_that_moved(objects, text):
    configured = load(text)
    check_all(objects, configured.plugins, configured.actions)


@settings(max_examples=examples(20), deadline=None, phases=phases())
@given(scattered(), POLICIES)
def test_every_move_by_hamis_policies_does(objects, policies):
    check_all(objects, default_plugins(**policies), ["allocate"])


def test_every_suggestion_about_the_examples_holds():
    from tonnage.config.load import load_file
    from tonnage.manifests.owners.expansion import add_missing_pods
    from tonnage.manifests.read import read_files

    configured = {
        "queues.yaml": "queues-config.yaml",
        "reclaim.yaml": "reclaim-config.yaml",
        "fragmentation.yaml": "fgd.yaml",
    }
    kinds: set[str] = set()
    for name in (
        "cluster.yaml",
        "controllers.yaml",
        "gang.yaml",
        "topology.yaml",
        "fragmentation.yaml",
        "queues.yaml",
        "reclaim.yaml",
        "defrag.yaml",
    ):
        manifests = read_files([str(ROOT / "examples" / name)])
        add_missing_pods(manifests, 1.8e9)
        objects = [*manifests.surroundings, *manifests.quotas, *manifests.budgets, *manifests.nodes]
        objects += [*manifests.hypernodes, *manifests.topologies, *manifests.groups, *manifests.pods]
        made, actions = default_plugins(), ["allocate"]
        if name in configured:
            settings = load_file(str(ROOT / "examples" / configured[name]))
            made, actions = settings.plugins, settings.actions
        for found in check_all(objects, made, actions):
            kinds |= {one.kind for one in found.suggestions}
    assert {"request", "node", "end", "move"} <= kinds
