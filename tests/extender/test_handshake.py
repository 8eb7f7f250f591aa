"""When a scheduler asks a device plugin, writes it off and takes it back, and how often it writes."""

import asyncio
import json
import logging
from datetime import UTC, datetime

import pytest

from tests.scenario import REGISTER, cards, node, place, pod, problems, reasons, scenario
from tests.virtualtime import run
from tests.waiting import until_true
from tonnage.devices.catalog import default_vendors
from tonnage.extender.handshake import ANSWER_SECONDS, Handshakes, due
from tonnage.kube.errors import ConnectionLostError, StatusError
from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node, NodeStatus

HANDSHAKE = "hami.io/node-handshake"
REPORTED = "Reported 2024-01-23 04:30:04.434037031 +0000 UTC m=+1104711.777756895"
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC).timestamp()
NVIDIA = default_vendors()[0]
BY_NAME = {vendor.name: vendor for vendor in default_vendors()}
ASCEND = BY_NAME["Ascend910A"]
OLD_TEXT = "a/0,10,8000,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:"
NEWER_TEXT = "a/0,10,8000,100,NVIDIA-Tesla V100-PCIE-32GB,0,true,0,hami-core:"


def saying(handshake=None, offered=None, name="a", gpus=2, **notes):
    notes |= {} if handshake is None else {HANDSHAKE: handshake}
    return node(name, gpus=gpus, annotations=notes, **({} if offered is None else {"nvidia.com__gpu": offered}))


def stamp(seconds_ago=0.0, hours=0.0, word="Requesting"):
    """A stamp that was written so long ago, by a clock so many hours ahead of UTC."""
    return f"{word}_{datetime.fromtimestamp(NOW - seconds_ago + hours * 3600, UTC):%Y-%m-%d %H:%M:%S}"


# -- names


def test_every_vendor_that_has_a_handshake_knows_its_name():
    names = {vendor.name: vendor.handshake_annotation for vendor in default_vendors()}
    assert names["NVIDIA"] == "hami.io/node-handshake"
    assert names["DCU"] == "hami.io/node-handshake-dcu"
    assert names["MLU"] == names["Iluvatar"] == ""
    for chip in ("MR-V100", "MR-V50", "BI-V100", "BI-V150", "Ascend910A", "Ascend910B4-1", "Ascend310P"):
        assert names[chip] == f"hami.io/node-handshake-{chip}"
    assert names["XPU"] == "hami.io/node-handshake-xpu"
    assert names["Vastai"] == "hami.io/node-handshake-va"
    assert names["Biren"] == "hami.io/node-handshake-biren"
    without = [name for name, annotation in names.items() if not annotation]
    assert without == [
        "MLU", "Iluvatar", "Metax-GPU", "Metax-SGPU", "GCU", "Enflame", "Mthreads", "kunlun", "AWSNeuron", "AMD",
    ]  # fmt: skip
    assert len({annotation for annotation in names.values() if annotation}) == len(names) - len(without)


# -- vectors of HAMi's CheckHealth: (true, false) writes nothing, (false, false) writes off, (true, true) asks


@pytest.mark.parametrize(
    ("said", "offered", "written"),
    [
        ("Requesting_2128-12-02 00:00:00", None, ""),
        ("Requesting_2024-01-02 00:00:00", None, "Deleted_2026-03-01 12:00:00"),
        ("Requesting_2024-01-02 00:00:00", 0, "Deleted_2026-03-01 12:00:00"),
        ("Requesting_2024-01-02 00:00:00", 8, ""),
        ("Requesting_rubbish", None, ""),
        ("Requesting", None, ""),
        ("Requesting_2024-13-40 99:00:00", None, ""),
        ("Deleted", None, ""),
        ("Unknown", None, "Requesting_2026-03-01 12:00:00"),
        (None, None, "Requesting_2026-03-01 12:00:00"),
    ],
)
def test_health_vectors(said, offered, written):
    key, resource = ASCEND.handshake_annotation, ASCEND.count_resource
    register = json.dumps([{"id": "npu-0", "count": 4, "devmem": 32768, "devcore": 100, "health": True}])
    notes = {ASCEND.register_annotations[0]: register} | ({} if said is None else {key: said})
    offers = {} if offered is None else {resource: offered}
    assert due(Node(ObjectMeta("a", annotations=notes), status=NodeStatus(offers, offers)), ASCEND, NOW) == written


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("Requesting_2026.03.01 11:59:01", ""),
        ("Requesting_2026.03.01 11:59:00", "Deleted_2026.03.01 12:00:00"),
        ("Deleted_2025-08-03 19:32:07", ""),
        (REPORTED, "Requesting_2026.03.01 12:00:00"),
        (None, "Requesting_2026.03.01 12:00:00"),
    ],
)
def test_vectors_of_the_first_generation(said, written):
    assert due(saying(said, **{REGISTER: OLD_TEXT}), NVIDIA, NOW) == written


# -- generations


def test_a_report_is_answered_in_the_layout_of_its_generation():
    assert due(saying(REPORTED, 20, **{REGISTER: OLD_TEXT}), NVIDIA, NOW) == "Requesting_2026.03.01 12:00:00"
    assert due(saying(REPORTED, 20, **{REGISTER: NEWER_TEXT}), NVIDIA, NOW) == "Requesting_2026-03-01 12:00:00"
    assert due(saying(REPORTED, 20), NVIDIA, NOW) == "Requesting_2026-03-01 12:00:00"


def test_a_plugin_that_never_reports_is_not_asked_while_the_kubelet_offers_its_cards():
    assert due(saying(None, 20), NVIDIA, NOW) == ""
    assert due(saying(None, 0), NVIDIA, NOW) == "Requesting_2026-03-01 12:00:00"


def test_a_plugin_that_was_written_off_wrongly_is_asked_again_after_a_minute():
    assert due(saying(stamp(30, word="Deleted"), 20), NVIDIA, NOW) == ""
    assert due(saying(stamp(60, word="Deleted"), 20), NVIDIA, NOW) == "Requesting_2026-03-01 12:00:00"
    assert due(saying(stamp(60, word="Deleted"), 0), NVIDIA, NOW) == ""


def test_nodes_without_such_cards_are_left_alone():
    for said in (None, REPORTED, stamp(100), stamp(100, word="Deleted")):
        assert due(saying(said, gpus=0), NVIDIA, NOW) == ""
        assert due(saying(said, 8, gpus=0), NVIDIA, NOW) == ""
        for empty in ("[]", ":", "", "rubbish"):
            assert due(saying(said, gpus=0, **{REGISTER: empty}), NVIDIA, NOW) == ""
    for vendor in default_vendors():
        if vendor.name != "NVIDIA":
            assert due(saying(REPORTED), vendor, NOW) == ""


@pytest.mark.parametrize("hours", [0, 8, -8, 5.75, -3.5, 14, -12])
def test_stamps_in_any_time_zone_last_a_minute(hours):
    for seconds in (0, 1, 59):
        assert due(saying(stamp(seconds, hours)), NVIDIA, NOW) == "", (hours, seconds)
    for seconds in (60, 100, 700):
        assert due(saying(stamp(seconds, hours)), NVIDIA, NOW).startswith("Deleted_"), (hours, seconds)


def test_a_clock_that_is_a_little_ahead_does_no_harm():
    assert due(saying(stamp(-30)), NVIDIA, NOW) == ""


def test_whatever_it_writes_it_leaves_alone_at_once():
    for said in (None, REPORTED, stamp(100), stamp(100, word="Deleted"), "", "what?"):
        for offered in (None, 0, 5, "rubbish", -1):
            written = due(saying(said, offered), NVIDIA, NOW)
            if written:
                assert due(saying(written, offered), NVIDIA, NOW) == ""


# -- cards


def test_cards_that_were_written_off_are_not_given_out_and_return_with_a_report():
    cluster = scenario(saying("Deleted_2026-01-01 00:00:00"))
    assert reasons(place(cluster, pod("p", 1))) == {"NodeUnregistered": 1}
    assert problems(cluster) == [("Node/a", "metadata.annotations[hami.io/node-handshake]")]
    cluster.upsert_node(saying(REPORTED, 20))
    assert cards(place(cluster, pod("p", 1))) == ["a/1"]
    assert problems(cluster) == []


def test_a_stale_word_does_not_hide_cards_that_the_kubelet_offers():
    cluster = scenario(saying("Deleted_2026-01-01 00:00:00", 20))
    assert cards(place(cluster, pod("p", 1))) == ["a/1"]
    assert problems(cluster) == []


def test_a_vendor_that_was_written_off_does_not_take_others_with_it():
    notes = {
        "hami.io/node-handshake-dcu": "Deleted_2026-01-01 00:00:00",
        "hami.io/node-dcu-register": "d0,4,16000,100,DCU-Z100,0,true:",
    }
    cluster = scenario(saying(REPORTED, **notes))
    assert [device.uuid for device in cluster.nodes["a"].devices] == ["a/0", "a/1"]


def test_the_word_on_a_node_that_never_had_such_cards_is_no_problem():
    cluster = scenario(saying("Deleted_2026-01-01 00:00:00", gpus=0))
    assert problems(cluster) == []


# -- writing


class Server:
    """Takes patches of nodes and shows them at once, or later, or refuses."""

    def __init__(self, cluster, shows=True, refusal=None):
        self.cluster, self.shows, self.refusal = cluster, shows, refusal
        self.patches: list[tuple[str, dict[str, str]]] = []
        self.together = self.most = 0

    async def request(self, method, path, *, body, type_, timeout):
        assert (method, type_) == ("PATCH", "application/merge-patch+json")
        self.together += 1
        self.most = max(self.most, self.together)
        await asyncio.sleep(0)
        self.together -= 1
        name, notes = path.removeprefix("/api/v1/nodes/"), body["metadata"]["annotations"]
        self.patches.append((name, notes))
        if self.refusal is not None:
            raise self.refusal
        if self.shows:
            self.say(name, notes)
        return b""

    def say(self, name, notes):
        before = self.cluster.nodes[name].node
        meta = ObjectMeta(name, annotations={**before.annotations, **notes})
        self.cluster.upsert_node(Node(meta, before.spec, before.status))


class Clock:
    now = NOW

    def __call__(self):
        return self.now


def handshakes(*nodes, **how):
    cluster, clock = scenario(*nodes), Clock()
    server = Server(cluster, **how)
    return Handshakes(server, cluster, clock, lambda: 0.0), server, clock


def look(hands, times=1):
    async def main():
        for _ in range(times):
            await hands.check(list(hands._cluster.nodes))

    run(main())


def test_a_node_is_written_to_once_per_report():
    hands, server, clock = handshakes(saying(REPORTED, 20), node("plain"), saying(None, 20, name="new"))
    look(hands, times=3)
    assert server.patches == [("a", {HANDSHAKE: "Requesting_2026-03-01 12:00:00"})]
    clock.now += 200
    look(hands)
    assert hands.writes == 1
    server.say("a", {HANDSHAKE: REPORTED})
    look(hands, times=2)
    assert hands.writes == 2


def test_a_write_that_the_watch_has_not_shown_yet_is_not_repeated():
    hands, server, clock = handshakes(saying(REPORTED, 20), shows=False)
    look(hands, times=3)
    assert hands.writes == 1
    server.say("a", {"other": "news"})
    look(hands)
    assert hands.writes == 1
    server.say("a", {HANDSHAKE: REPORTED + "9"})
    look(hands)
    assert hands.writes == 2
    clock.now += ANSWER_SECONDS
    look(hands)
    assert hands.writes == 3, "what is not shown after so long was undone by somebody"


def test_a_plugin_that_dies_is_asked_written_off_once_and_taken_back():
    hands, server, clock = handshakes(saying(None, 0))
    for seconds in range(0, 600, 15):
        clock.now = NOW + seconds
        look(hands)
    assert [notes[HANDSHAKE] for _, notes in server.patches] == [
        "Requesting_2026-03-01 12:00:00",
        "Deleted_2026-03-01 12:01:00",
    ]
    assert not server.cluster.nodes["a"].devices
    server.cluster.upsert_node(saying(server.patches[-1][1][HANDSHAKE], 20))
    assert len(server.cluster.nodes["a"].devices) == 2
    look(hands, times=3)
    assert server.patches[-1][1][HANDSHAKE].startswith("Requesting_")
    assert hands.writes == 3


def test_several_vendors_of_a_node_are_asked_in_one_write():
    notes = {
        "hami.io/node-handshake-dcu": "Reported_2026.03.01 11:59:59",
        "hami.io/node-dcu-register": "d0,4,16000,100,DCU-Z100,0,true:",
    }
    hands, server, _ = handshakes(saying(REPORTED, **notes))
    look(hands, times=2)
    assert server.patches == [
        (
            "a",
            {
                HANDSHAKE: "Requesting_2026-03-01 12:00:00",
                "hami.io/node-handshake-dcu": "Requesting_2026.03.01 12:00:00",
            },
        )
    ]


def test_only_few_writes_are_on_their_way_together():
    hands, server, _ = handshakes(*(saying(REPORTED, name=f"n{number}") for number in range(100)))
    look(hands)
    assert len(server.patches) == 100
    assert server.most == 8


@pytest.mark.parametrize("refusal", [ConnectionLostError("no answer"), StatusError(403, "Forbidden", "no")])
def test_a_write_that_fails_is_tried_again_and_told_once(refusal, caplog):
    hands, server, _ = handshakes(saying(REPORTED), refusal=refusal)
    with caplog.at_level(logging.WARNING):
        look(hands, times=3)
    assert hands.writes == 3
    assert len(caplog.records) == 1
    assert "a: the handshake" in caplog.text
    server.refusal = None
    look(hands)
    server.refusal = refusal
    server.say("a", {HANDSHAKE: REPORTED + "5"})
    look(hands)
    assert len(caplog.records) == 2


def test_a_node_that_is_gone_is_no_failure(caplog):
    hands, server, _ = handshakes(saying(REPORTED), refusal=StatusError(404, "NotFound", "a"))
    look(hands)
    server.cluster.remove_node("a")
    run(hands.check(["a"]))
    assert hands.writes == 1
    assert not caplog.records


def test_changes_are_looked_at_soon_and_everything_now_and_then():
    async def main():
        hands, server, _ = handshakes(saying(None, 20))
        task = asyncio.create_task(hands.run())
        await asyncio.sleep(0.05)
        assert not server.patches
        server.say("a", {HANDSHAKE: REPORTED})
        hands.seen(["a", "never seen"])
        await until_true(lambda: len(server.patches) == 1)
        hands.seen(["a"])
        await asyncio.sleep(0.4)
        assert hands.writes == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main())
