"""Every vendor that came after HAMi 2.4 as scenarios: a node, a pod, its cards, and what the device plugin reads."""

import json

import pytest

from tests.plugins.gpus.vendor_lives import NANOSECONDS, asking, live, machine
from tests.plugins.gpus.vendornodes import registered, sgpu, sgpus, vxpu_node
from tests.scenario import decide, reasons, scenario, usage
from tonnage.devices.metax import Metax


class TestMooreThreads:
    COUNT, MEMORY, CORE = "mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"

    def node(self, cards=2):
        return machine(capacity={self.CORE: 16 * cards, self.MEMORY: 96 * cards})

    def test_a_part_of_a_card(self):
        life = live(scenario(self.node()), asking("p", {self.COUNT: 1, self.MEMORY: 32, self.CORE: 4}))
        assert life.cards == ["n-mthreads-1"]
        assert life.written == {
            "hami.io/mthreads-vgpu-devices-allocated": "n-mthreads-1,Mthreads,16384,4:;",
            "mthreads.com/gpu-index": "1",
            "mthreads.com/predicate-time": NANOSECONDS,
            "mthreads.com/predicate-node": "n",
        }

    def test_several_cards_are_whole_ones(self):
        cluster = scenario(self.node())
        life = live(cluster, asking("p", {self.COUNT: 2}))
        assert life.written["hami.io/mthreads-vgpu-devices-allocated"] == (
            "n-mthreads-1,Mthreads,49152,16:n-mthreads-0,Mthreads,49152,16:;"
        )
        assert life.written["mthreads.com/gpu-index"] == "1,0"
        assert reasons(decide(cluster, asking("q", {self.COUNT: 1, self.MEMORY: 2}))) == {"CardInsufficientMemory": 1}

    def test_all_containers_of_a_pod_share_the_same_card(self):
        small = {self.COUNT: 1, self.MEMORY: 32, self.CORE: 4}
        assert live(scenario(self.node()), asking("p", small, small)).cards == ["n-mthreads-1"] * 2
        large = {self.COUNT: 1, self.MEMORY: 64, self.CORE: 4}
        assert live(scenario(self.node()), asking("p", large, large)).reasons == {
            "AllocatedCardsInsufficientRequest": 1
        }


class TestMetax:
    def test_a_whole_gpu(self):
        cluster = scenario(machine(capacity={"metax-tech.com/gpu": 2}))
        life = live(cluster, asking("p", {"metax-tech.com/gpu": 1}))
        text = "n-metax-1,Metax-GPU,65536,100:;"
        assert life.written == {
            "hami.io/metax-gpu-devices-to-allocate": text,
            "hami.io/metax-gpu-devices-allocated": text,
        }

    @pytest.mark.parametrize(
        ("policy", "count", "chosen"), [("binpack", 1, "b"), ("binpack", 2, "a"), ("spread", 2, "b")]
    )
    def test_nodes_are_chosen_by_what_links_are_lost_or_won(self, policy, count, chosen):
        told = {
            "a": {
                "metax-tech.com/gpu.topology.losses": '{"1":123,"2":21}',
                "metax-tech.com/gpu.topology.scores": '{"2":5}',
            },
            "b": {
                "metax-tech.com/gpu.topology.losses": '{"1":23,"2":321}',
                "metax-tech.com/gpu.topology.scores": '{"2":6}',
            },
        }
        nodes = [machine(name, annotations=notes, capacity={"metax-tech.com/gpu": 4}) for name, notes in told.items()]
        decision = decide(scenario(*nodes), asking("p", {"metax-tech.com/gpu": count}), node_policy=policy)
        assert decision.node == chosen

    def test_a_score_is_two_thousand_less_the_loss(self):
        told = machine(annotations={"metax-tech.com/gpu.topology.losses": '{"1":123,"2":321}'})
        assert Metax().node_score(told, 2, spreads=False) == 1679
        assert Metax().node_score(told, 3, spreads=False) == 2000
        assert Metax().node_score(told, 2, spreads=True) == 0
        unreadable = machine(annotations={"metax-tech.com/gpu.topology.losses": '{"2": 1e99}'})
        assert Metax().node_score(unreadable, 2, spreads=False) == 2000

    def test_containers_of_one_pod_get_different_gpus(self):
        cluster = scenario(machine(capacity={"metax-tech.com/gpu": 2}))
        life = live(cluster, asking("p", {"metax-tech.com/gpu": 1}, {"metax-tech.com/gpu": 1}))
        assert life.cards == ["n-metax-1", "n-metax-0"]


class TestMetaxShared:
    def test_a_part_of_a_card(self):
        life = live(scenario(sgpus(0)), sgpu("p", memory=4, core=20))
        text = "GPU-a,Metax-SGPU,4096,20:;"
        assert life.written == {
            "hami.io/metax-sgpu-devices-to-allocate": text,
            "hami.io/metax-sgpu-devices-allocated": text,
            "metax-tech.com/gpu-devices-allocated": '[[{"uuid":"GPU-a","compute":20,"vRam":4096}]]',
            "metax-tech.com/predicate-time": NANOSECONDS,
        }

    def test_one_card_has_one_qos_policy(self):
        cluster = scenario(sgpus(0))
        live(cluster, sgpu("a", memory=1, core=10, qos="fixed-share"))
        assert live(cluster, sgpu("b", memory=1, core=10, qos="fixed-share")).cards == ["GPU-a"]
        assert live(cluster, sgpu("c", memory=1, core=10, qos="burst-share")).reasons == {"CardQosPolicyMismatch": 1}
        assert live(cluster, sgpu("c", memory=1, core=10)).reasons == {"CardQosPolicyMismatch": 1}
        cluster.remove_pod("default/a")
        cluster.remove_pod("default/b")
        assert live(cluster, sgpu("c", memory=1, core=10)).cards == ["GPU-a"]

    def test_classes_are_kept_apart_but_online_pods_join_offline_ones(self):
        cluster = scenario(sgpus(0))
        live(cluster, sgpu("a", memory=1, core=10, kind="offline"))
        assert live(cluster, sgpu("b", memory=1, core=10)).reasons == {"CardAppClassMismatch": 1}
        burst = sgpu("b", memory=1, core=10, kind="offline", qos="burst-share")
        assert live(cluster, burst).reasons == {"CardQosPolicyMismatch": 1}
        assert live(cluster, sgpu("b", memory=1, core=10, kind="offline")).cards == ["GPU-a"]
        online = live(cluster, sgpu("c", memory=1, kind="online"))
        assert online.written["hami.io/metax-sgpu-devices-allocated"] == "GPU-a,Metax-SGPU,1024,0:;"
        assert live(cluster, sgpu("d", memory=1, core=10, kind="offline")).reasons == {"CardAppClassMismatch": 1}
        assert live(cluster, sgpu("e", memory=1, kind="online")).cards == ["GPU-a"]

    @pytest.mark.parametrize(
        ("count", "zones", "given"),
        [
            (2, (1, 1, 1, 2, 2, 0), "de"),
            (3, (1, 1, 1, 2, 2, 0), "abc"),
            (4, (1, 1, 1, 2, 2, 0), "bcde"),
            (6, (1, 1, 1, 2, 2, 0), "abcdef"),
            (1, (1, 1, 0, 2), "d"),
            (2, (0, 0, 0), "bc"),
        ],
    )
    def test_whole_cards_come_from_the_smallest_zone_that_has_enough(self, count, zones, given):
        chosen = sorted(live(scenario(sgpus(*zones)), sgpu("p", count)).cards)
        assert chosen == [f"GPU-{letter}" for letter in given]


class TestEnflame:
    CAPACITY = (
        '{"devices":[{"index":"0","minor":"0","capacity":6}],"profiles":{"1g.6gb":"0","3g.20gb":"1","6g.40gb":"2"}}'
    )
    SLICES, MEMORY, CORE = "enflame.com/drs-gcu", "enflame.com/gcu-memory", "enflame.com/gcu-core"

    def sliced(self, offered=6):
        notes = {"enflame.com/gcu-drs-capacity": self.CAPACITY}
        return scenario(machine(annotations=notes, capacity={self.SLICES: offered}))

    def test_a_whole_gcu(self):
        life = live(scenario(machine(capacity={"enflame.com/gcu": 2})), asking("p", {"enflame.com/gcu": 2}))
        text = "n-GCU-1,GCU,100,100:n-GCU-0,GCU,100,100:;"
        assert life.written == {
            "hami.io/enflame-gcu-devices-to-allocate": text,
            "hami.io/enflame-gcu-devices-allocated": text,
        }

    def test_three_slices_of_six(self):
        life = live(self.sliced(), asking("p", {self.SLICES: 3}))
        assert life.written == {
            "hami.io/enflame-vgpu-devices-allocated": "n-enflame-drs-0,Enflame,20480,50:;",
            "enflame.com/gcu-assigned": "false",
            "enflame.com/gcu-assigned-time": NANOSECONDS,
            "enflame.com/gcu-assigned-index": "0",
            "enflame.com/gcu-assigned-id": "0",
            "enflame.com/gcu-assigned-minor": "0",
            "enflame.com/gcu-request-size": "3",
            "assigned-containers": ('{"c0":{"allocated":false,"request":3,"profileName":"3g.20gb","profileID":"1"}}'),
        }

    def test_a_card_is_full_when_its_slices_are(self):
        cluster = self.sliced()
        for name in ("a", "b", "c"):
            assert live(cluster, asking(name, {self.SLICES: 1})).cards
        assert live(cluster, asking("d", {self.SLICES: 3})).cards == ["n-enflame-drs-0"]
        assert usage(cluster, "n") == [(4, 3 * 6144 + 20480, 3 * 17 + 50)]
        assert not live(cluster, asking("e", {self.SLICES: 1})).cards

    @pytest.mark.parametrize("asked", [{SLICES: 1}, {CORE: 17}, {MEMORY: 6, CORE: 1}])
    def test_compute_is_recorded_rounded_up_and_six_slices_fit_on_a_card_of_six(self, asked):
        cluster = self.sliced()
        written = [live(cluster, asking(f"p{i}", asked)).written for i in range(6)]
        record = "hami.io/enflame-vgpu-devices-allocated"
        assert {life[record] for life in written} == {"n-enflame-drs-0,Enflame,6144,17:;"}
        assert not live(cluster, asking("p6", asked)).cards

    def test_two_slices_of_six_are_34_percent(self):
        capacity = self.CAPACITY.replace('"3g.20gb"', '"2g.13gb"')
        cluster = scenario(machine(annotations={"enflame.com/gcu-drs-capacity": capacity}, capacity={self.SLICES: 6}))
        for name in ("a", "b", "c"):
            record = live(cluster, asking(name, {self.CORE: 34})).written["hami.io/enflame-vgpu-devices-allocated"]
            assert record == "n-enflame-drs-0,Enflame,13312,34:;"
        assert not live(cluster, asking("d", {self.SLICES: 1})).cards

    def test_there_are_parts_of_some_sizes_only(self):
        assert live(self.sliced(), asking("p", {self.SLICES: 2})).reasons == {"ModeNotFit": 1}
        full = self.sliced(offered=12)
        live(full, asking("a", {self.SLICES: 6}))
        assert live(full, asking("p", {self.SLICES: 2})).reasons == {"ModeNotFit": 1}, "even if the card were empty"
        assert live(full, asking("p", {self.SLICES: 3})).reasons == {"CardComputeUnitsExhausted": 1}

    @pytest.mark.parametrize(
        ("asked", "profile"),
        [
            ({MEMORY: 6}, "1g.6gb"),
            ({MEMORY: 7}, "3g.20gb"),
            ({MEMORY: 6145}, "3g.20gb"),
            ({CORE: 16}, "1g.6gb"),
            ({CORE: 17}, "1g.6gb"),
            ({CORE: 18}, "3g.20gb"),
            ({MEMORY: 6, CORE: 51}, "6g.40gb"),
        ],
    )
    def test_memory_and_compute_find_the_smallest_part_that_will_do(self, asked, profile):
        assigned = json.loads(live(self.sliced(), asking("p", asked)).written["assigned-containers"])
        assert assigned["c0"]["profileName"] == profile

    def test_nothing_is_as_large_as_that(self):
        assert live(self.sliced(), asking("p", {self.MEMORY: 41})).reasons == {"ModeNotFit": 1}


class TestKunlun:
    def whole(self, *used):
        """A node of eight XPUs of which these are in use."""
        cluster = scenario(machine(capacity={"kunlunxin.com/xpu": 8}))
        for index in used:
            notes = {"baidu.com/use-gpuuuid": f"n-kunlun-{index}"}
            assert live(cluster, asking(f"x{index}", {"kunlunxin.com/xpu": 1}, annotations=notes)).cards
        return cluster

    def test_what_the_plugin_reads(self):
        life = live(self.whole(5), asking("p", {"kunlunxin.com/xpu": 2}))
        assert life.written == {
            "hami.io/kunlun-allocated": "n-kunlun-4,kunlun,98304,100:n-kunlun-6,kunlun,98304,100:;",
            "BAIDU_COM_DEVICE_IDX": "4,6",
        }

    @pytest.mark.parametrize(
        ("free", "count", "given"),
        [
            ((0, 1, 2, 3, 4, 6, 7), 2, [4, 6]),
            ((3, 7), 2, [3, 7]),
            ((3, 6), 2, []),
            ((0, 1, 4, 5, 6), 4, [0, 1, 4, 5]),
            ((0, 1, 2, 4, 5, 6), 4, [0, 1, 4, 5]),
            ((0, 1, 2, 5, 6, 7), 4, [1, 2, 5, 6]),
            ((0, 1, 2, 4, 5, 7), 4, [0, 1, 4, 5]),
            (range(8), 8, [*range(8)]),
            (range(8), 4, [0, 1, 2, 3]),
            (range(8), 1, [0]),
            ((0, 1, 4), 1, [4]),
            ((0, 1, 5, 6, 7), 1, [5]),
        ],
    )
    def test_only_linked_cards_are_given_together(self, free, count, given):
        cluster = self.whole(*({*range(8)} - {*free}))
        life = live(cluster, asking("p", {"kunlunxin.com/xpu": count}))
        assert life.cards == [f"n-kunlun-{index}" for index in given]
        assert life.reasons == ({} if given else {"CardSetInfeasible": 1})

    def test_all_eight_or_none(self):
        assert live(self.whole(7), asking("p", {"kunlunxin.com/xpu": 8})).reasons == {"InsufficientExtendedResource": 1}

    def test_a_vxpu(self):
        cluster = scenario(vxpu_node())
        life = live(cluster, asking("p", {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 20000}))
        text = "XPU-0,XPU,24576,25:;"
        assert life.written == {"hami.io/xpu-devices-to-allocate": text, "hami.io/xpu-devices-allocated": text}

    def test_vxpus_of_one_card_are_of_one_size(self):
        cluster = scenario(vxpu_node(1))
        quarter = {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 24576}
        half = {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 49152}
        live(cluster, asking("a", quarter))
        assert live(cluster, asking("b", half)).reasons == {"CardTenancyMismatch": 1}
        assert live(cluster, asking("b", quarter)).cards == ["XPU-0"]

    def test_the_size_of_an_init_container_binds_nobody(self):
        """HAMi looks at its app containers only; the init container itself must still match those on the card."""
        quarter = {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 24576}
        half = {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 49152}
        cluster = scenario(vxpu_node(1))
        assert live(cluster, asking("a", quarter, init=[half])).cards == ["XPU-0", "XPU-0"]
        assert live(cluster, asking("b", quarter)).cards == ["XPU-0"]
        assert live(cluster, asking("c", quarter, init=[half])).reasons == {"CardTenancyMismatch": 1}

    @pytest.mark.parametrize("use", ["baidu.com/use-gpuuuid", "hami.io/use-xpu-uuid"])
    def test_whole_cards_and_vxpus_heed_both_pairs_of_uuid_lists(self, use):
        part = {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 24576}
        assert live(scenario(vxpu_node(4)), asking("p", part, annotations={use: "XPU-2"})).cards == ["XPU-2"]
        whole = asking("p", {"kunlunxin.com/xpu": 1}, annotations={use: "n-kunlun-5"})
        assert live(self.whole(), whole).cards == ["n-kunlun-5"]

    def test_of_two_lists_both_apply(self):
        part = {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 24576}
        notes = {"baidu.com/use-gpuuuid": "XPU-1,XPU-2", "hami.io/use-xpu-uuid": "XPU-2,XPU-3"}
        assert live(scenario(vxpu_node(4)), asking("p", part, annotations=notes)).cards == ["XPU-2"]
        notes = {"baidu.com/nouse-gpuuuid": "XPU-0,XPU-1", "hami.io/no-use-xpu-uuid": "XPU-2,XPU-3"}
        assert live(scenario(vxpu_node(4)), asking("p", part, annotations=notes)).reasons == {"CardUuidMismatch": 1}

    def test_also_those_of_one_pod(self):
        quarter = {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 24576}
        half = {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 49152}
        assert live(scenario(vxpu_node(1)), asking("p", quarter, half)).reasons == {"CardTenancyMismatch": 1}
        assert live(scenario(vxpu_node(1)), asking("p", quarter, quarter)).cards == ["XPU-0", "XPU-0"]
        assert len({*live(scenario(vxpu_node(2)), asking("p", quarter, half)).cards}) == 2


class TestNeuron:
    DEVICE, CORE = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"
    USE = "aws.amazon.com/use-neuron-uuid"

    def node(self, devices=4, kind="inf2.24xlarge"):
        labels = {"node.kubernetes.io/instance-type": kind}
        return machine(capacity={self.DEVICE: devices, self.CORE: devices * 2}, labels=labels)

    def test_whole_devices(self):
        life = live(scenario(self.node()), asking("p", {self.DEVICE: 2}))
        assert life.written == {
            "hami.io/aws-neuron-devices-allocated": "n-AWSNeuron-0,AWSNeuron,0,3:n-AWSNeuron-1,AWSNeuron,0,3:;",
            "AWS_NEURON_IDS": "0,1",
            "NEURON_ALLOC_TIME": NANOSECONDS,
            "NEURON_ALLOCATED": "false",
            "aws.amazon.com/predicate-node": "n",
        }

    def test_single_cores_of_one_device(self):
        cluster = scenario(self.node(1))
        first, second = (live(cluster, asking(name, {self.CORE: 1})).written for name in ("a", "b"))
        assert first["hami.io/aws-neuron-devices-allocated"] == "n-AWSNeuron-0,AWSNeuron,0,1:;"
        assert second["hami.io/aws-neuron-devices-allocated"] == "n-AWSNeuron-0,AWSNeuron,0,2:;"
        assert (first["AWS_NEURON_IDS"], second["AWS_NEURON_IDS"]) == ("0", "1")
        assert first["NEURON_RESOURCE_TYPE"] == self.CORE
        assert not live(cluster, asking("c", {self.CORE: 1})).cards
        cluster.remove_pod("default/a")
        assert live(cluster, asking("c", {self.CORE: 1})).written["AWS_NEURON_IDS"] == "0"

    @pytest.mark.parametrize("policy", ["binpack", "spread"])
    def test_devices_without_memory_all_score_nothing_so_that_the_last_one_comes_first(self, policy):
        cluster = scenario(self.node(2))
        for _ in range(2):
            decision = decide(cluster, asking("p", {self.CORE: 1}), gpu_policy=policy)
            assert [device.uuid for device in decision.devices] == ["n-AWSNeuron-1"]
            live(cluster, asking("a", {self.CORE: 1}, annotations={self.USE: "n-AWSNeuron-0"}))

    @pytest.mark.parametrize("policy", ["binpack", "spread"])
    def test_so_do_their_nodes_so_that_the_name_decides(self, policy):
        nodes = [machine(name, capacity={self.DEVICE: 2, self.CORE: 4}) for name in ("a", "b")]
        cluster = scenario(*nodes)
        for busy in ("", "b-AWSNeuron-0", "a-AWSNeuron-0"):
            if busy:
                live(cluster, asking(busy.lower(), {self.CORE: 1}, annotations={self.USE: busy}))
            decision = decide(cluster, asking("p", {self.CORE: 1}), node_policy=policy)
            assert decision.node == "a"
            assert {score["total"] for score in decision.scores.values()} == {0}

    def test_several_cores_are_whole_devices(self):
        life = live(scenario(self.node()), asking("p", {self.CORE: 4}))
        assert life.written["AWS_NEURON_IDS"] == "0,1,2,3"
        assert life.cards == ["n-AWSNeuron-0", "n-AWSNeuron-1"]

    def test_a_device_with_one_core_in_use_is_not_whole(self):
        cluster = scenario(self.node(1))
        live(cluster, asking("a", {self.CORE: 1}))
        assert live(cluster, asking("b", {self.DEVICE: 1})).reasons == {"CardInsufficientCore": 1}

    @pytest.mark.parametrize(
        ("kind", "busy", "count", "given"),
        [
            ("inf2.48xlarge", 0, 3, [1, 2, 3]),
            ("inf2.48xlarge", 2, 3, [3, 4, 5]),
            ("trn1.32xlarge", 0, 4, [4, 5, 6, 7]),
            ("trn1.32xlarge", None, 2, []),
            ("trn1.32xlarge", 5, 8, [8, 9, 10, 11, 12, 13, 14, 15]),
            ("trn1.32xlarge", 5, 16, []),
            ("", 1, 4, [4, 5, 6, 7]),
        ],
    )
    def test_several_devices_are_neighbours(self, kind, busy, count, given):
        cluster = scenario(self.node(16, kind))
        if busy is not None:
            notes = {"aws.amazon.com/use-neuron-uuid": f"n-AWSNeuron-{busy}"}
            live(cluster, asking("x", {self.DEVICE: 1}, annotations=notes))
        life = live(cluster, asking("p", {self.DEVICE: count}))
        assert life.cards == [f"n-AWSNeuron-{index}" for index in given]


class TestAmd:
    NODE = machine(
        annotations={
            "hami.io/node-amd-register": registered("a", "b", count=10, devmem=196608, devcore=304, type="MI300X")
        }
    )

    def test_percents_are_compute_units_of_the_card(self):
        cluster = scenario(self.NODE)
        life = live(cluster, asking("p", {"amd.com/gpu": 1, "amd.com/gpumem": 8192, "amd.com/gpucores": 25}))
        text = "b,MI300X,8192,76:;"
        assert life.written == {"hami.io/amd-devices-to-allocate": text, "hami.io/amd-devices-allocated": text}

    def test_without_compute_the_card_is_whole(self):
        cluster = scenario(self.NODE)
        assert live(cluster, asking("p", {"amd.com/gpu": 2})).written["hami.io/amd-devices-allocated"] == (
            "b,MI300X,196608,304:a,MI300X,196608,304:;"
        )
        shared = asking("q", {"amd.com/gpu": 1, "amd.com/gpumem": 1, "amd.com/gpucores": 1})
        assert reasons(decide(cluster, shared)) == {"CardInsufficientMemory": 1}

    def test_compute_runs_out_by_the_unit(self):
        cluster = scenario(self.NODE)
        for name in ("a", "b", "c", "d"):
            half = {"amd.com/gpu": 1, "amd.com/gpumem": 1, "amd.com/gpucores": 50}
            assert live(cluster, asking(name, half)).cards
        decision = decide(cluster, asking("e", {"amd.com/gpu": 1, "amd.com/gpumem": 1, "amd.com/gpucores": 1}))
        assert reasons(decision) == {"CardInsufficientCore": 1}

    def test_models_may_be_wanted_or_not(self):
        refused = asking("p", {"amd.com/gpu": 1}, annotations={"amd.com/nouse-gputype": "mi300"})
        assert reasons(decide(scenario(self.NODE), refused)) == {"CardTypeMismatch": 1}

    def test_a_model_that_no_record_can_hold_is_left_out(self):
        odd = machine(annotations={"hami.io/node-amd-register": registered("a", type="W7900: 48GB, dual")})
        life = live(scenario(odd), asking("p", {"amd.com/gpu": 1}))
        assert life.written["hami.io/amd-devices-allocated"] == "a,AMD,32768,100:;"


class TestVastai:
    def dies(self, *cards):
        entries = [
            {"id": f"die-{index}", "index": index, "count": 1, "devmem": 32768, "health": True}
            | {"custominfo": {"DeviceStrategy": "die", "AIC": card}}
            for index, card in enumerate(cards)
        ]
        return scenario(machine(annotations={"hami.io/node-va-register": json.dumps(entries)}))

    def test_a_card(self):
        cluster = scenario(machine(annotations={"hami.io/node-va-register": registered("VA-0", devcore=0)}))
        life = live(cluster, asking("p", {"vastaitech.com/va": 1}))
        text = "VA-0,Vastai,0,0:;"
        assert life.written == {"hami.io/Vastai-devices-to-allocate": text, "hami.io/Vastai-devices-allocated": text}
        assert reasons(decide(cluster, asking("q", {"vastaitech.com/va": 1}))) == {"CardTimeSlicingExhausted": 1}

    def test_dies_come_from_as_few_cards_as_possible(self):
        assert sorted(live(self.dies("x", "y", "y", "x", "y"), asking("p", {"vastaitech.com/va": 3})).cards) == [
            "die-1",
            "die-2",
            "die-4",
        ]


class TestBiren:
    def test_a_card(self):
        cluster = scenario(machine(annotations={"hami.io/node-biren-register": registered("BR-0", "BR-1")}))
        life = live(cluster, asking("p", {"birentech.com/gpu": 2}))
        text = "BR-1,Biren,0,0:BR-0,Biren,0,0:;"
        assert life.written == {"hami.io/Biren-devices-to-allocate": text, "hami.io/Biren-devices-allocated": text}
        assert reasons(decide(cluster, asking("q", {"birentech.com/gpu": 1}))) == {"CardTimeSlicingExhausted": 1}
