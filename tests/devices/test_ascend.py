"""Ascend: templates, modules of two cards, network groups and what the plugin reads."""

import pytest

from tests.devices.objects import container, node, pod
from tonnage.devices.ascend import CHIPS, Ascend
from tonnage.devices.base import (
    NOT_MATCHED,
    AdmissionChange,
    AdmissionError,
    DecodeError,
    Device,
    DeviceRequest,
    DeviceUse,
    Handover,
    RequestError,
)


def ascend(name):
    return Ascend(next(chip for chip in CHIPS if chip.name == name))


def limits(name, count, memory=None, core=None):
    sides = {f"huawei.com/{name}-memory": memory, f"huawei.com/{name}-core": core}
    return {f"huawei.com/{name}": count} | {key: value for key, value in sides.items() if value is not None}


def admit(name, count, memory=None):
    return ascend(name).admit(container(limits(name, count, memory))).changes


def memory_changes(name, memory):
    return tuple(AdmissionChange(field, f"huawei.com/{name}-memory", memory) for field in ("limits", "requests"))


def npus(*indexes, networks=None):
    facts = [()] * len(indexes) if networks is None else [(("NetworkID", network),) for network in networks]
    return [
        Device(f"dev-{index}", index, 1, 32768, 100, "", custom=fact)
        for index, fact in zip(indexes, facts, strict=True)
    ]


def pick(name, count, candidates):
    return ascend(name).pick(DeviceRequest(name, count, 0, 100, 0), candidates, {})


class TestRequest:
    @pytest.mark.parametrize(
        ("name", "asked", "given"),
        [
            ("Ascend910A", 1, 2184),
            ("Ascend910A", 2184, 2184),
            ("Ascend910A", 2185, 4369),
            ("Ascend910A", 17476, 17476),
            ("Ascend910A", 20000, 32768),
            ("Ascend910B", 16384, 16384),
            ("Ascend910B2", 8193, 16384),
            ("Ascend910B3", 1000, 16384),
            ("Ascend910B4", 8193, 16384),
            ("Ascend910B4-1", 32769, 65536),
            ("Ascend910C", 20000, 32768),
            ("Ascend310P", 12289, 21527),
            ("Ascend310P", 24576, 21527),
        ],
    )
    def test_memory_is_rounded_up_to_a_template_or_a_whole_card(self, name, asked, given):
        assert ascend(name).request(container(limits(name, 1, asked))) == DeviceRequest(name, 1, given, 0, 0)

    def test_a_card_is_whole_by_default_and_cores_are_passed_on(self):
        assert ascend("Ascend310P").request(container(limits("Ascend310P", 2))).percentage == 100
        assert ascend("Ascend310P").request(container(limits("Ascend310P", 1, core=150))).cores == 150
        assert ascend("Ascend310P").request(container()) is None

    @pytest.mark.parametrize(("memory", "message"), [(40000, "more than a card's 32768 MiB"), ("8Gi", "in MiB")])
    def test_more_memory_than_a_card_has_is_an_error(self, memory, message):
        with pytest.raises(RequestError, match=message):
            ascend("Ascend910A").request(container(limits("Ascend910A", 1, memory)))


class TestAdmission:
    @pytest.mark.parametrize(("asked", "given"), [(None, "32768"), (20000, "32768"), (8000, "8738")])
    def test_memory_is_written_as_it_will_be_given(self, asked, given):
        assert admit("Ascend910A", 1, asked) == memory_changes("Ascend910A", given)

    def test_several_whole_cards_are_admitted(self):
        assert admit("Ascend910A", 2, 32768) == memory_changes("Ascend910A", "32768")

    @pytest.mark.parametrize(
        ("name", "count", "memory", "message"),
        [
            ("Ascend910A", 2, 8738, "8738 is part of a card, but 2 cards are given as whole ones only"),
            ("Ascend910A", 1, 40000, "more than a card's 32768 MiB"),
            ("Ascend910C", 3, None, "3 is odd, but cards come in pairs"),
            ("Ascend910C", 1, 16384, "16384 is part of a card, but 2 cards"),
            ("Ascend310P", "x", None, "'x' is not a quantity"),
        ],
    )
    def test_what_can_never_be_given_is_refused(self, name, count, memory, message):
        with pytest.raises(AdmissionError, match=message):
            admit(name, count, memory)

    def test_one_card_of_a_module_becomes_the_module(self):
        count = AdmissionChange("limits", "huawei.com/Ascend910C", "2")
        assert admit("Ascend910C", 1) == (count, *memory_changes("Ascend910C", "65536"))
        assert admit("Ascend910C", 4) == memory_changes("Ascend910C", "65536")
        asked = container(limits("Ascend910C", 1), requests=limits("Ascend910C", 1))
        changes = ascend("Ascend910C").admit(asked).changes
        assert changes[:2] == (count, AdmissionChange("requests", "huawei.com/Ascend910C", "2"))

    def test_a_container_without_npu_is_left_alone(self):
        assert ascend("Ascend910C").admit(container()) == NOT_MATCHED


class TestModules:
    def test_a_node_with_too_few_whole_modules_does_not_fit(self):
        assert pick("Ascend910C", 4, npus(0, 1, 2, 4, 6, networks=[0] * 5)) == []

    def test_as_many_cards_as_asked_for_do_not_fit_if_they_are_halves(self):
        assert pick("Ascend910C", 2, npus(0, 2, networks=[0, 0])) == []

    def test_a_whole_module_fits(self):
        assert pick("Ascend910C", 2, npus(0, 1, networks=[0, 0])) == [0, 1]

    def test_modules_are_whole_with_or_without_network_groups(self):
        assert pick("Ascend910C", 2, npus(0, 2)) == []
        assert pick("Ascend910C", 2, npus(0, 1)) == [0, 1]

    def test_no_set_is_made_up_of_halves(self):
        assert pick("Ascend910C", 4, npus(0, 2, 4, 6)) == []

    def test_the_preferred_modules_are_taken(self):
        assert pick("Ascend910C", 2, npus(5, 2, 3, 0, 4)) == [0, 4]
        assert pick("Ascend910C", 3, npus(0, 1, 2, 3)) == []

    def test_only_modules_can_refuse_a_set(self):
        several, one = DeviceRequest("x", 2, 0, 100, 0), DeviceRequest("x", 1, 0, 100, 0)
        assert ascend("Ascend910C").is_particular(several)
        assert not ascend("Ascend910C").is_particular(one)
        assert not ascend("Ascend910B3").is_particular(several)
        assert pick("Ascend910C", 1, npus(0)) is None


class TestNetworks:
    def test_cards_come_from_the_largest_group(self):
        assert pick("Ascend910B3", 2, npus(0, 1, 2, networks=[1, 2, 2])) == [1, 2]

    def test_the_next_group_fills_up_what_the_largest_lacks(self):
        assert pick("Ascend910B3", 4, npus(0, 1, 2, 3, 4, networks=[1, 2.0, 1, 2, 2])) == [1, 3, 4, 0]

    def test_of_equal_groups_the_preferred_comes_first(self):
        assert pick("Ascend910B3", 2, npus(0, 1, 2, 3, networks=[7, 3, 3, 7])) == [0, 3]

    def test_there_is_no_opinion_without_groups_or_for_one_card(self):
        mixed = [*npus(0, networks=[1]), *npus(1)]
        assert pick("Ascend910B3", 2, mixed) is None
        assert pick("Ascend910B3", 1, npus(0, networks=[1])) is None
        assert pick("Ascend310P", 2, npus(0, 1, networks=[1, 1])) is None


class TestRecords:
    def test_the_plugin_is_told_the_template_of_every_card(self):
        uses = ((DeviceUse("device-0", 8738, 1),), ())
        assert ascend("Ascend910A").encode_pod(uses, Handover(now=1705054796)) == {
            "hami.io/Ascend910A-devices-to-allocate": "device-0,Ascend910A,8738,1:;;",
            "hami.io/Ascend910A-devices-allocated": "device-0,Ascend910A,8738,1:;;",
            "predicate-time": "1705054796",
            "huawei.com/Ascend910A": '[{"UUID":"device-0","temp":"vir08","memory":8738,"core":1}]',
        }

    def test_a_whole_card_has_no_template(self):
        uses = ((), (DeviceUse("a", 32768, 0), DeviceUse("b", 32768, 0)))
        annotations = ascend("Ascend910A").encode_pod(uses, Handover(now=1))
        assert annotations["huawei.com/Ascend910A"] == '[{"UUID":"a","memory":32768},{"UUID":"b","memory":32768}]'
        assert ascend("Ascend910A").decode_pod(pod(annotations, init=1)) == uses

    def test_registration_brings_the_network_group(self):
        text = '[{"id":"a","count":1,"devmem":65536,"type":"Ascend910B3","health":true,"custominfo":{"NetworkID":3}}]'
        registered = node({"hami.io/node-register-Ascend910B3": text})
        assert ascend("Ascend910B3").devices(registered)[0].custom == (("NetworkID", 3),)
        assert ascend("Ascend910B4").devices(registered) == []
        with pytest.raises(DecodeError):
            ascend("Ascend910B3").devices(node({"hami.io/node-register-Ascend910B3": "[{]"}))

    def test_cards_are_named_by_uuid(self):
        annotations = {"hami.io/use-Ascend310P-uuid": "a,b", "hami.io/no-use-Ascend310P-uuid": "c"}
        assert ascend("Ascend310P").uuid_lists(annotations) == ({"a", "b"}, {"c"})
        assert set(ascend("Ascend310P").policy_annotations) == {*annotations, "huawei.com/vnpu-mode"}


def test_soft_split_is_refused_with_a_sentence():
    chip = Ascend(CHIPS[0])
    asked = container({chip.count_resource: 1, chip.memory_resource: 1000})
    with pytest.raises(RequestError, match=r"huawei.com/vnpu-mode: hami-core \(soft split\) is not supported"):
        chip.request(asked, {"huawei.com/vnpu-mode": "hami-core"})
    with pytest.raises(AdmissionError, match="gets a template of the card"):
        chip.admit(asked, {"huawei.com/vnpu-mode": "hami-core"})
    assert chip.request(asked, {"huawei.com/vnpu-mode": "template"}) is not None
    assert chip.request(container({}), {"huawei.com/vnpu-mode": "hami-core"}) is None
