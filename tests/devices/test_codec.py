"""Registrations, pod records and capacity: what is read, what is refused, and that writing and reading agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.devices.objects import node
from tonnage.devices import codec
from tonnage.devices.base import LARGEST_AMOUNT, MOST_DEVICES, DecodeError, Device, DeviceUse, MigPlacement, MigProfile

V100 = "NVIDIA-Tesla V100-PCIE-32GB"
IDENTIFIERS = st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True)
AMOUNTS = st.integers(0, LARGEST_AMOUNT)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters=",:"), max_size=20)


class TestRegistrationAsText:
    def test_seven_fields_stand_for_a_shared_card_indexed_by_its_place(self):
        text = f"GPU-0055,10,32768,100,{V100},0,true:GPU-0fc3,10,32768,100,{V100},1,false:"
        assert codec.decode_node(text) == [
            Device("GPU-0055", 0, 10, 32768, 100, V100, 0, True, "hami-core"),
            Device("GPU-0fc3", 1, 10, 32768, 100, V100, 1, False, "hami-core"),
        ]

    def test_nine_fields_add_index_and_mode(self):
        text = "GPU-ebe7,10,7680,100,NVIDIA-Tesla P4,0,true,1,mig:"
        assert codec.decode_node(text) == [Device("GPU-ebe7", 1, 10, 7680, 100, "NVIDIA-Tesla P4", 0, True, "mig")]

    @pytest.mark.parametrize("text", [":", "::", " :\n"])
    def test_colons_alone_are_no_devices(self, text):
        assert codec.decode_node(text) == []

    def test_an_unknown_numa_node_is_minus_one(self):
        assert codec.decode_node("GPU-0,10,7680,100,P4,-1,true:")[0].numa == -1

    @pytest.mark.parametrize(
        ("health", "expected"), [("1", True), ("t", True), ("TRUE", True), ("0", False), ("F", False), ("False", False)]
    )
    def test_health_is_a_truth_value_as_go_writes_it(self, health, expected):
        assert codec.decode_node(f"GPU-0,10,7680,100,P4,0,{health}:")[0].healthy is expected

    @pytest.mark.parametrize(
        ("text", "position", "expected"),
        [
            ("", "", "a ':' after every device"),
            ("GPU-0,10,7680,100,P4,0,true", "", "a ':' after every device"),
            ("GPU-0,10,7680,100,P4,0,true:GPU-1,10,7680,100,P4,0,tr", "", "a ':' after every device"),
            ("GPU-0:", "device 1", "7 or 9 fields"),
            ("a,1,2,3,P4,0,true:b,1,2,3,P4,0,true,0:", "device 2", "7 or 9 fields"),
            ("a,1,2,3,P4,0,true,0,mig,more:", "device 1", "7 or 9 fields"),
            (",1,2,3,P4,0,true:", "device 1, field 1 (id)", "an id"),
            ("a b,1,2,3,P4,0,true:", "device 1, field 1 (id)", "an id"),
            ("a[1-2],1,2,3,P4,0,true:", "device 1, field 1 (id)", "an id"),
            ("a,x,2,3,P4,0,true:", "device 1, field 2 (count)", "a whole number from 0 to 2147483647"),
            ("a,1,2,3,P4,0,true:b,1,-2,3,P4,0,true:", "device 2, field 3 (memory)", "a whole number from 0"),
            ("a,1,2147483648,3,P4,0,true:", "device 1, field 3 (memory)", "a whole number from 0"),
            (f"a,1,{'9' * 5000},3,P4,0,true:", "device 1, field 3 (memory)", "a whole number from 0"),
            ("a,1,2, 3,P4,0,true:", "device 1, field 4 (cores)", "a whole number from 0"),
            ("a,1,2,٣,P4,0,true:", "device 1, field 4 (cores)", "a whole number from 0"),
            ("a,1,2,1_0,P4,0,true:", "device 1, field 4 (cores)", "a whole number from 0"),
            ("a,1,2,3,P4,-2,true:", "device 1, field 6 (NUMA node)", "a whole number from -1"),
            ("a,1,2,3,P4,0,yes:", "device 1, field 7 (health)", "true or false"),
            ("a,1,2,3,P4,0,true,-1,mig:", "device 1, field 8 (index)", "a whole number from 0"),
        ],
    )
    def test_what_is_wrong_is_refused_with_its_place(self, text, position, expected):
        with pytest.raises(DecodeError) as caught:
            codec.decode_node(text)
        assert caught.value.position == position
        assert caught.value.expected.startswith(expected)
        assert 0 < len(caught.value.message) < 100

    def test_more_devices_than_a_node_can_have_are_refused(self):
        card = "a,1,2,3,P4,0,true:"
        assert len(codec.decode_node(card * MOST_DEVICES)) == MOST_DEVICES
        with pytest.raises(DecodeError, match="129 devices on one node"):
            codec.decode_node(card * (MOST_DEVICES + 1))

    @given(
        st.lists(
            st.builds(
                Device,
                uuid=IDENTIFIERS,
                index=AMOUNTS,
                count=AMOUNTS,
                memory=AMOUNTS,
                cores=AMOUNTS,
                type=WORDS,
                numa=st.integers(-1, LARGEST_AMOUNT),
                healthy=st.booleans(),
                mode=WORDS,
            ),
            max_size=5,
        )
    )
    def test_reading_gives_back_what_was_written(self, devices):
        assert codec.decode_node(codec.encode_node(devices) or ":") == devices


class TestRegistrationAsJson:
    def test_what_is_left_out_is_zero_empty_or_unhealthy(self):
        assert codec.decode_node('[{"id":"id-1"}]') == [Device("id-1", 0, 0, 0, 0, "", 0, False, "")]

    def test_every_key_is_read(self):
        text = (
            '\n [{"id":"GPU-0","index":1,"count":5,"devmem":8192,"devcore":100,"type":"NVIDIA-Tesla P4","numa":1,'
            '"mode":"mig","health":true,"devicevendor":"NVIDIA","migtemplate":null,'
            '"custominfo":{"NetworkID":3,"AIC":"x","nested":{"a":[1]}}}]'
        )
        expected = Device(
            "GPU-0", 1, 5, 8192, 100, "NVIDIA-Tesla P4", 1, True, "mig", (), (("NetworkID", 3), ("AIC", "x"))
        )
        assert codec.decode_node(text) == [expected]
        assert hash(expected)

    def test_mig_profiles_come_with_their_placements(self):
        text = (
            '[{"id":"GPU-0","migProfiles":[{"name":"1g.5gb","memoryMB":4864,"core":15,"sliceCount":1,'
            '"placements":[{"start":6,"size":1},{"size":1}]}]}]'
        )
        placements = (MigPlacement(6, 1), MigPlacement(0, 1))
        assert codec.decode_node(text)[0].profiles == (MigProfile("1g.5gb", 4864, 15, 1, placements),)

    def test_an_empty_list_is_no_devices(self):
        assert codec.decode_node("[]") == []

    @pytest.mark.parametrize(
        ("text", "position", "message"),
        [
            ("[", "", "truncated"),
            ('[{"id":"a"} x]', "byte 12", "malformed"),
            ("[1]", "device 1", "Expected `object`"),
            ('[{"index":1}]', "device 1", "missing required field `id`"),
            ('[{"id":""}]', "device 1, id", "cannot name a device"),
            ('[{"id":"a"},{"id":"b:c"}]', "device 2, id", "cannot name a device"),
            ('[{"id":"a"},{"id":"b","devmem":"8192"}]', "device 2, devmem", "Expected `int`"),
            ('[{"id":"a","devmem":-1}]', "device 1, devmem", ">= 0"),
            ('[{"id":"a","count":2147483648}]', "device 1, count", "<= 2147483647"),
            ('[{"id":"a","count":1e400}]', "", ""),
            ('[{"id":"a","numa":-2}]', "device 1, numa", ">= -1"),
            ('[{"id":"a","health":"true"}]', "device 1, health", "Expected `bool`"),
            (
                '[{"id":"a","migProfiles":[{"name":"x","placements":[{"size":0}]}]}]',
                "device 1, migProfiles[0].placements[0].size",
                ">= 1",
            ),
            ('[{"id":"a","custominfo":' + "[" * 100_000 + "]}]", "", ""),
            ("[\udc80]", "", ""),
        ],
    )
    def test_what_is_wrong_is_refused_with_its_place(self, text, position, message):
        with pytest.raises(DecodeError) as caught:
            codec.decode_node(text)
        inside = caught.value.position.startswith("device")
        assert caught.value.expected if inside else caught.value.expected == "a JSON list of devices"
        assert message in caught.value.message
        assert caught.value.position == position or not message

    def test_more_devices_than_a_node_can_have_are_refused(self):
        with pytest.raises(DecodeError, match="129 devices on one node"):
            codec.decode_node("[" + ",".join(['{"id":"a"}'] * (MOST_DEVICES + 1)) + "]")


class TestPodRecord:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("UUID1,Type1,1000,30:;", ((DeviceUse("UUID1", 1000, 30),),)),
            ("UUID1,Type1,1000,30:", ((DeviceUse("UUID1", 1000, 30),),)),
            (
                "UUID1,Type1,1000,30:UUID2,Type1,1000,30:;",
                ((DeviceUse("UUID1", 1000, 30), DeviceUse("UUID2", 1000, 30)),),
            ),
            (
                "GPU-8dcd,NVIDIA,500,3:;GPU-ebe7,NVIDIA,500,3:;",
                ((DeviceUse("GPU-8dcd", 500, 3),), (DeviceUse("GPU-ebe7", 500, 3),)),
            ),
            (";device-0,MLU,256000,1:;", ((), (DeviceUse("device-0", 256000, 1),))),
            (";d,MLU,1,1:;;", ((), (DeviceUse("d", 1, 1),), ())),
            ("GPU-ebe7,NVIDIA,1000,10:;,,0,0:;", ((DeviceUse("GPU-ebe7", 1000, 10),), ())),
            (",,0,0:;d,MLU,1,1:;\n", ((), (DeviceUse("d", 1, 1),))),
            ("GPU-9366[7-9],NVIDIA,5120,0:;", ((DeviceUse("GPU-9366", 5120, 0),),)),
            ("d,AMD,1,1,later versions may add:;", ((DeviceUse("d", 1, 1),),)),
            ("", ()),
            (";", ((),)),
            (";;", ((), ())),
        ],
    )
    def test_every_container_keeps_its_slot(self, text, expected):
        assert codec.decode_pod(text) == expected

    @pytest.mark.parametrize(
        ("text", "position", "expected"),
        [
            ("uuid,type,100:;", "container 1, device 1", "4 fields"),
            (";a,T,1,1:words:;", "container 2, device 2", "4 fields"),
            ("a,T,1.5,1:;", "container 1, device 1, field 3 (memory)", "a whole number"),
            ("a,T,2147483648,1:;", "container 1, device 1, field 3 (memory)", "a whole number"),
            ("a,T,-1,1:;", "container 1, device 1, field 3 (memory)", "a whole number"),
            ("a,T,1,1:;b,T,1,:;", "container 2, device 1, field 4 (cores)", "a whole number"),
            (",,5,0:;", "container 1, device 1, field 1 (id)", "the id of a device"),
        ],
    )
    def test_what_is_wrong_is_refused_with_its_place(self, text, position, expected):
        with pytest.raises(DecodeError) as caught:
            codec.decode_pod(text)
        assert caught.value.position == position
        assert caught.value.expected.startswith(expected)

    @pytest.mark.parametrize(
        ("uses", "text"),
        [
            (((DeviceUse("d", 2000, 1),), ()), "d,NVIDIA,2000,1:;;"),
            (((), (DeviceUse("d", 2000, 1),)), ";d,NVIDIA,2000,1:;"),
            (((), (DeviceUse("d", 2000, 1),), ()), ";d,NVIDIA,2000,1:;;"),
        ],
    )
    def test_a_container_without_devices_is_written_as_an_empty_slot(self, uses, text):
        assert codec.encode_pod(uses, "NVIDIA") == text

    @given(
        st.lists(
            st.lists(st.builds(DeviceUse, uuid=IDENTIFIERS, memory=AMOUNTS, cores=AMOUNTS), max_size=3).map(tuple),
            max_size=5,
        ).map(tuple)
    )
    def test_reading_gives_back_what_was_written(self, uses):
        assert codec.decode_pod(codec.encode_pod(uses, "NVIDIA")) == uses


class TestCapacity:
    @staticmethod
    def devices(**capacity):
        return codec.capacity_devices(
            node(capacity=capacity), cores="cores", memory="memory", memory_unit=256, stem="card", first=0, type_="T"
        )

    def test_a_hundred_cores_are_a_card_and_memory_is_shared_evenly(self):
        assert self.devices(cores="200", memory="100") == [
            Device("n1-card-0", 0, 100, 12800, 100, "T"),
            Device("n1-card-1", 1, 100, 12800, 100, "T"),
        ]

    @pytest.mark.parametrize("capacity", [{}, {"cores": 0}, {"cores": "99", "memory": "nonsense"}])
    def test_less_than_a_card_is_none(self, capacity):
        assert self.devices(**capacity) == []

    @pytest.mark.parametrize(
        ("capacity", "position"),
        [
            ({"cores": "many"}, "status.capacity[cores]"),
            ({"cores": "-100"}, "status.capacity[cores]"),
            ({"cores": "100.5"}, "status.capacity[cores]"),
            ({"cores": "100", "memory": "x"}, "status.capacity[memory]"),
            ({"cores": "100", "memory": "1E"}, "status.capacity[memory]"),
            ({"cores": "1E"}, ""),
        ],
    )
    def test_capacity_that_makes_no_sense_is_refused(self, capacity, position):
        with pytest.raises(DecodeError) as caught:
            self.devices(**capacity)
        assert caught.value.position == position
