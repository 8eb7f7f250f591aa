"""Which card comes first: HAMi's pairwise order cases for every policy, chain, weight and NUMA rule."""

import pytest

from tests.scenario import cards, decide, gpu, node, pod, reasons, running, scenario

POLICY = "hami.io/gpu-scheduler-policy"
WEIGHTS = "hami.io/device-scoring-weights"
NUMA_BIND = "nvidia.com/numa-bind"


def pair(first=(0, 0), second=(0, 0), numas=(0, 0), indexes=(0, 1)):
    """A node with cards `left` and `right`; each is in use by (pods, MiB per pod)."""
    objects = [
        node("n", gpus=[gpu("left", index=indexes[0], numa=numas[0]), gpu("right", index=indexes[1], numa=numas[1])])
    ]
    for card, (pods, memory) in (("left", first), ("right", second)):
        objects += [running(f"{card}{i}", on="n", gpu=card, memory=memory) for i in range(pods)]
    return scenario(*objects)


def taken(cluster, policy, numa_order="tie", **annotations):
    decision = decide(
        cluster, pod("p", 1, memory=100, annotations=annotations), gpu_policy=policy, numa_order=numa_order
    )
    return cards(decision)[0]


USED_LEFT = {"first": (1, 1000)}
USED_RIGHT = {"second": (1, 1000)}


@pytest.mark.parametrize(
    ("policy", "world", "expected"),
    [
        # One policy: the score decides, then the higher NUMA node, then the later registered.
        ("binpack", USED_LEFT, "left"),
        ("binpack", USED_RIGHT, "right"),
        ("spread", USED_LEFT, "right"),
        ("spread", USED_RIGHT, "left"),
        ("binpack", {}, "right"),
        ("spread", {}, "right"),
        ("binpack", {**USED_LEFT, "numas": (0, 1)}, "left"),
        ("binpack", {**USED_RIGHT, "numas": (1, 0)}, "right"),
        ("spread", {**USED_LEFT, "numas": (1, 0)}, "right"),
        ("spread", {**USED_RIGHT, "numas": (0, 1)}, "left"),
        ("binpack", {"numas": (1, 0)}, "left"),
        ("binpack", {"numas": (0, 1)}, "right"),
        ("spread", {"numas": (1, 0)}, "left"),
        ("spread", {"numas": (0, 1)}, "right"),
        # One policy does not look at the index.
        ("binpack", {"indexes": (5, 1)}, "right"),
        ("spread", {"indexes": (5, 1)}, "right"),
        # Mutex: idle cards only, of the higher NUMA node, then the later registered.
        ("mutex", USED_LEFT, "right"),
        ("mutex", USED_RIGHT, "left"),
        ("mutex", {}, "right"),
        ("mutex", {"numas": (1, 0)}, "left"),
        ("mutex", {"indexes": (5, 1)}, "right"),
        # NUMA alone is a chain: the higher NUMA node, then the higher index.
        ("numa", {"numas": (1, 0)}, "left"),
        ("numa", {"numas": (0, 1)}, "right"),
        ("numa", {"numas": (1, 0), **USED_LEFT}, "left"),
        ("numa", {"indexes": (5, 1)}, "left"),
        # Chains decide in the order written, then by the higher index.
        ("binpack,numa", {**USED_LEFT, "numas": (0, 1)}, "left"),
        ("binpack,numa", {"numas": (1, 0)}, "left"),
        ("binpack,numa", {"indexes": (5, 1)}, "left"),
        ("numa,binpack", {**USED_LEFT, "numas": (0, 1)}, "right"),
        ("numa,binpack", USED_LEFT, "left"),
        ("spread,numa", {**USED_LEFT, "numas": (1, 0)}, "right"),
        ("spread,numa", {"numas": (1, 0)}, "left"),
        ("numa,spread", {**USED_LEFT, "numas": (1, 0)}, "left"),
        ("numa,spread", USED_LEFT, "right"),
        (" numa , spread ", USED_LEFT, "right"),
        ("mutex,binpack", USED_RIGHT, "left"),
        ("mutex,numa", {"numas": (1, 0)}, "left"),
        ("mutex,topology-aware", {"indexes": (5, 1)}, "left"),
        # A comma alone makes a chain: the index breaks ties.
        ("binpack,", {"indexes": (5, 1)}, "left"),
        (",spread", {"indexes": (5, 1)}, "left"),
        ("spread,", {**USED_LEFT, "indexes": (5, 1)}, "right"),
        ("mutex,", {"indexes": (5, 1)}, "left"),
        # Topology alone sorts as spread does.
        ("topology-aware", USED_RIGHT, "left"),
    ],
)
def test_the_card_that_is_taken(policy, world, expected):
    assert taken(pair(**world), policy) == expected
    assert taken(pair(**world), "spread" if policy != "spread" else "binpack", **{POLICY: policy}) == expected


@pytest.mark.parametrize(
    ("policy", "world", "expected"),
    [
        # As in HAMi 2.4: binpack takes the lowest NUMA node and in it the fullest card, spread the highest and idlest.
        ("binpack", {**USED_LEFT, "numas": (1, 0)}, "right"),
        ("binpack", {**USED_LEFT, "numas": (0, 1)}, "left"),
        ("binpack", {"numas": (0, 1)}, "left"),
        ("binpack", USED_LEFT, "left"),
        ("spread", {**USED_RIGHT, "numas": (0, 1)}, "right"),
        ("spread", {**USED_LEFT, "numas": (1, 0)}, "left"),
        ("spread", USED_LEFT, "right"),
        ("spread", {}, "right"),
        ("topology-aware", {**USED_LEFT, "numas": (1, 0)}, "left"),
    ],
)
def test_numa_first_by_flag_or_because_the_pod_binds_to_one(policy, world, expected):
    assert taken(pair(**world), policy, numa_order="first") == expected
    assert taken(pair(**world), policy, **{NUMA_BIND: "true"}) == expected


@pytest.mark.parametrize("chain", ["binpack,numa", "binpack,mutex", "numa,binpack"])
def test_a_chain_puts_numa_first_for_pods_that_bind_to_one(chain):
    idle_but_higher = pair(numas=(0, 1))
    assert taken(idle_but_higher, chain, **{NUMA_BIND: "1"}) == "right"


def test_the_flag_leaves_chains_alone():
    assert taken(pair(**USED_LEFT, numas=(0, 1)), "binpack,spread", numa_order="first") == "left"


def test_scores_compare_as_exact_shares():
    """A third of one card equals a third of another, whatever floating point makes of it."""
    cluster = scenario(
        node("n", gpus=[gpu("left", count=3, memory=3000), gpu("right", index=1, count=9, memory=9000)]),
        running("x", on="n", gpu="left", memory=100),
        *[running(f"y{i}", on="n", gpu="right", memory=100) for i in range(5)],
    )
    # left: 2/3 + 200/3000, right: 6/9 + 600/9000
    assert taken(cluster, "binpack") == "right"
    assert taken(cluster, "spread") == "right"


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("slot=1,core=0,memory=0", "slots"),
        ("slot=0,core=0,memory=1", "memory"),
        ("slot=0,core=1,memory=0", "cores"),
        (" slot = 0 , core=0,memory=1,", "memory"),
        ("slot=1,core=1,memory=100", "memory"),
    ],
)
def test_weights_say_which_share_counts(weights, expected):
    cluster = scenario(
        node("n", gpus=[gpu(name, index=i) for i, name in enumerate(("slots", "memory", "cores"))]),
        *[running(f"x{i}", on="n", gpu="slots") for i in range(5)],
        running("y", on="n", gpu="memory", memory=7000),
        running("z", on="n", gpu="cores", cores=90),
    )
    assert taken(cluster, "binpack", **{WEIGHTS: weights}) == expected


@pytest.mark.parametrize(
    "weights",
    ["", "slot=1", "slot=1,core=1", "slot=1,core=1,memory=-1", "slot=0,core=0,memory=0", "slot=1,core=1,memory=x",
     "slot=1,core=1,memory=1,more=1", "slot=1,slot=1,core=1,memory=1", "slot=1.5,core=1,memory=1"],
)  # fmt: skip
def test_weights_that_make_no_sense_keep_the_pod_waiting(weights):
    cluster = pair()
    decision = decide(cluster, pod("p", 1, memory=100, annotations={WEIGHTS: weights}))
    assert reasons(decision) == {"InvalidDeviceScoringWeights": 1}
    assert WEIGHTS in decision.rejected[0].message


def test_weights_do_not_matter_to_a_pod_without_cards():
    assert decide(pair(), pod("p", cpu=1, annotations={WEIGHTS: "nonsense"})).node == "n"
