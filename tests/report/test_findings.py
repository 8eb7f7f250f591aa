"""What the report says in words: who was best and by how much, and what is no difference at all."""

import pytest

from tests.report.sample import fill_results, replay_results
from tonnage.report.findings import findings
from tonnage.report.pages.text import NARROW
from tonnage.report.ranking import equal
from tonnage.simulator.studies.comparison import with_comparison
from tonnage.simulator.studies.results import PolicyResult, Results, SeedSpread


def said(results: Results) -> list[str]:
    return [message.replace(NARROW, " ") for message in findings(results)]


def filled(gpus: int = 1000, seeds: int = 10, bound: float | None = None, **policies: PolicyResult) -> Results:
    results = Results(
        policies={name.replace("_", "-"): policy for name, policy in policies.items()},
        mode="fill",
        workload="w",
        command="c",
        versions={},
        seeds=list(range(seeds)),
        nodes=10,
        gpus=gpus,
        pods=100,
        bound={} if bound is None else {"100": bound},
    )
    return with_comparison(results)


def reached(mean: float, sd: float = 0.0, **others: float) -> PolicyResult:
    return PolicyResult(
        gpu_allocated={"50": SeedSpread(50.0), "100": SeedSpread(mean, sd)},
        **{name: {"100": SeedSpread(value)} for name, value in others.items()},
    )


def test_the_best_is_named_with_its_lead_over_the_next_and_the_last():
    results = filled(fgd=reached(95.2, 0.1), best_fit=reached(92.9, 0.1), random=reached(86.3, 0.3))
    assert said(results) == [
        "fgd allocated the most, 95.2 % of all GPUs: 23 GPUs more than best-fit, the next, "
        "and 89 more than random, the last."
    ]


def test_two_policies_are_compared_with_each_other():
    assert said(filled(a=reached(90.0), b=reached(89.9))) == [
        "a allocated the most, 90.0 % of all GPUs: 1 GPU more than b."
    ]


def test_a_lead_smaller_than_the_spread_is_none():
    results = filled(a=reached(91.8, 0.5), b=reached(91.6, 0.6), c=reached(80.0, 0.1))
    assert said(results) == ["a and b allocated equally much, up to 91.8 % of all GPUs: 118 GPUs more than c."]


def test_all_may_be_equal():
    assert said(filled(a=reached(91.8, 0.5), b=reached(91.6, 0.6))) == [
        "a and b allocated equally much, up to 91.8 % of all GPUs: no policy did better than another."
    ]


def test_one_policy_is_not_compared():
    assert said(filled(a=reached(91.8, nodes_free=3.0))) == ["a allocated 91.8 % of all GPUs, 918 GPUs."]


def test_one_seed_is_called_one():
    assert said(filled(seeds=1, a=reached(90.0), b=reached(80.0)))[-1].startswith("All of this is one seed")


def test_the_bound_says_how_much_is_left_to_gain():
    assert said(filled(bound=97.2, a=reached(95.2), b=reached(80.0)))[1] == (
        "No policy could allocate more than 97.2 %; a is 2.0 points below that, 20 GPUs."
    )
    assert said(filled(bound=95.2, a=reached(95.2)))[1] == "No policy could allocate more than 95.2 %, and a does."


def test_fragmentation_failures_and_free_nodes_have_a_sentence_each():
    results = filled(
        a=reached(90.0, fragmentation_of_all=4.7, pods_failed=400, nodes_free=12),
        b=reached(80.0, fragmentation_of_all=13.5, pods_failed=1100, nodes_free=2),
    )
    assert said(results)[1:] == [
        "a leaves the least fragmentation: 4.7 % of all GPUs are free but of no use to the typical pods, "
        "against 13.5 % with b.",
        "The fewest pods failed with a, 400; the most with b, 1,100.",
        "a left the most nodes entirely free: 12, the others down to 2.",
    ]


def test_what_is_equal_everywhere_is_said_to_be():
    one = reached(90.0, fragmentation_of_all=4.0, pods_failed=7, nodes_free=3)
    assert said(filled(a=one, b=one))[1:] == [
        "All policies leave GPUs equally fragmented: 4.0 % of all GPUs are free but of no use to the typical pods.",
        "Equally many pods failed with every policy, about 7.",
        "All policies left equally many nodes entirely free, 3.",
    ]


def test_without_the_checkpoint_at_full_demand_the_last_one_counts():
    policies = {
        name: PolicyResult({"50": SeedSpread(50), "80": SeedSpread(value)}) for name, value in (("a", 70), ("b", 60))
    }
    assert said(filled(**policies))[0].startswith("a allocated the most, 70.0 %")


def test_a_replay_is_compared_by_its_averages_and_waits():
    sentences = said(replay_results())
    assert sentences[0].startswith("fgd allocated the most, 85.7 % of all GPUs: 9 GPUs more than spread.")
    assert sentences[-1] == (
        "Pods waited least with fgd by the 95th percentile: 95 % of them started within 12m, against 19m with spread."
    )


def waited(failed: float = 0.0, **percentiles: float) -> PolicyResult:
    return PolicyResult(
        {"0": SeedSpread(50.0), "100": SeedSpread(50.0)},
        waiting_time={name: SeedSpread(value) for name, value in percentiles.items()},
        failures={"CardInsufficientMemory": SeedSpread(failed)} if failed else {},
    )


def waits_of(**policies: PolicyResult) -> str:
    return said(with_comparison(Results(policies, "replay", "w", "c", {}, [1, 2], 1, 100, 1)))[-1]


def test_another_percentile_that_says_otherwise_is_told():
    assert waits_of(a=waited(p50=30, p90=60, p99=600), b=waited(p50=2, p90=60, p99=1200)) == (
        "Pods waited least with a by the 99th percentile: 99 % of them started within 10m, against 20m with b; "
        "by the 50th least with b, 2s against 30s with a."
    )


def test_equal_waits_by_one_percentile_are_not_equal_by_all():
    assert waits_of(a=waited(p50=30, p99=600), b=waited(p50=2, p99=600)) == (
        "Pods waited equally long with every policy by the 99th percentile: 99 % of them started within 10m; "
        "by the 50th least with b, 2s against 30s with a."
    )


def test_waits_of_those_that_ran_are_no_merit_where_others_never_did():
    assert waits_of(a=waited(p99=60, failed=40), b=waited(p99=600)) == (
        "Pods waited least with a by the 99th percentile: 99 % of them started within 1m, against 10m with b; "
        "but more pods never ran with a than with another policy."
    )


def test_what_is_left_free_by_a_policy_that_allocated_less_is_said_so():
    results = filled(
        a=reached(90.0, fragmentation_of_all=5.0, nodes_free=2),
        b=reached(80.0, fragmentation_of_all=4.0, nodes_free=12),
    )
    assert said(results)[1:] == [
        "b leaves the least fragmentation: 4.0 % of all GPUs are free but of no use to the typical pods, "
        "against 5.0 % with a; but b allocated less than a.",
        "b left the most nodes entirely free: 12, the others down to 2; but b allocated less than a.",
    ]


def test_an_average_counts_how_long_a_value_held():
    curve = {"0": SeedSpread(0.0), "10": SeedSpread(0.0), "10.0001": SeedSpread(100.0), "40": SeedSpread(100.0)}
    (message,) = said(with_comparison(Results({"a": PolicyResult(curve)}, "replay", "w", "c", {}, [1], 1, 100, 1)))
    assert message == "a allocated 75.0 % of all GPUs, 75 GPUs."


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (SeedSpread(90.0, 0.3), SeedSpread(90.4, 0.3), True),
        (SeedSpread(90.0, 0.3), SeedSpread(90.5, 0.3), False),
        (SeedSpread(90.0), SeedSpread(90.04), True),
        (SeedSpread(90.0), SeedSpread(90.1), False),
    ],
)
def test_differences_count_from_the_spread_of_a_pair_of_runs(one: SeedSpread, other: SeedSpread, same: bool):
    assert equal(one, other, 0.05) is same


def test_the_sample_reads_as_the_literature_does():
    assert said(fill_results())[0].startswith("fgd allocated the most, 95.0 % of all GPUs: 144 GPUs more than best-fit")
