"""`python -m bench`: speed and memory of the engine, the recorder, requeueing and the simulator."""

import statistics
import sys
from functools import partial
from typing import NamedTuple

from bench import engine, evictions, explain, jobs, queues, recorder, requeue, simulator
from bench.report import Report, argument_parser, publish
from bench.workload import bench_cluster


class Sizes(NamedTuple):
    """The sizes of the clusters and how often each figure is measured."""

    repeats: int
    placements: int
    nodes: int
    running: int
    naive: int
    """Placements by the reference that loops over objects."""
    large: int
    """Nodes of the large cluster; it runs one pod per node, then eight."""
    scaling: tuple[int, ...]
    start_ups: int
    queues: int
    recordings: int
    """Recordings that are timed together."""
    scrapes: int
    filled: tuple[int, ...]
    replayed: int
    jobs: int
    gangs: int
    job_nodes: tuple[int, ...]
    job_counts: tuple[int, ...]
    allocations: int
    gang: int
    """Pods of the gang that reclaims."""
    full_nodes: tuple[int, ...]
    reclaim_nodes: tuple[int, ...]
    pending: int
    pending_nodes: int
    classes: tuple[int, ...]


FULL = Sizes(
    repeats=3,
    placements=5000,
    nodes=1000,
    running=5000,
    naive=60,
    large=5000,
    scaling=(100, 300, 1000, 3000, 10_000),
    start_ups=15,
    queues=1000,
    recordings=500,
    scrapes=7,
    filled=(100, 1000, 10_000),
    replayed=20_000,
    jobs=500,
    gangs=100,
    job_nodes=(100, 300, 1000, 3000),
    job_counts=(100, 300, 1000, 3000, 10_000),
    allocations=12,
    gang=10,
    full_nodes=(100, 500),
    reclaim_nodes=(100, 200, 500),
    pending=5000,
    pending_nodes=1000,
    classes=(1, 10, 100),
)
QUICK = Sizes(
    repeats=1,
    placements=250,
    nodes=30,
    running=150,
    naive=5,
    large=50,
    scaling=(10, 30),
    start_ups=1,
    queues=100,
    recordings=10,
    scrapes=1,
    filled=(10,),
    replayed=100,
    jobs=20,
    gangs=5,
    job_nodes=(10, 20),
    job_counts=(10, 20),
    allocations=3,
    gang=2,
    full_nodes=(10,),
    reclaim_nodes=(10,),
    pending=50,
    pending_nodes=10,
    classes=(1, 10),
)


def run(report: Report, sizes: Sizes) -> None:
    report.add("yardstick: one NumPy addition of 20 numbers", engine.yardstick() * 1e6, "µs")
    placement(report, sizes)
    large_clusters(report, sizes)
    start_up(report, sizes)
    fair_shares(report, sizes)
    recording(report, sizes)
    simulation(report, sizes)
    allocation(report, sizes)
    eviction(report, sizes)
    requeueing(report, sizes)
    explanation(report, sizes)
    report.add("yardstick again", engine.yardstick() * 1e6, "µs")


def placement(report: Report, sizes: Sizes) -> None:
    """Decisions on a cluster of 1,000 nodes."""
    nodes, running = sizes.nodes, sizes.running
    size = f"{nodes:,} nodes × 8 GPUs, {running:,} running pods"
    cluster = bench_cluster(nodes, running)
    runs = [engine.seconds_per_placement(cluster, sizes.placements, seed) for seed in range(sizes.repeats)]
    report.at_least(f"placements, {size}, fastest", 1 / min(run.fastest for run in runs), "/s", 10_000)
    mean = statistics.mean(run.mean for run in runs)
    report.add(f"placements, {size}, mean", 1 / mean, "/s")
    naive = engine.seconds_per_object_placement(nodes, running, sizes.naive)
    report.at_least("speed-up over a scheduler that loops over objects, mean", naive / mean, "×", 50)
    report.add("reading a pod's requests into a task", engine.seconds_per_task(cluster) * 1e6, "µs")
    runs = [
        engine.seconds_per_placement(cluster, sizes.placements, seed, engine.full_plugins)
        for seed in range(sizes.repeats)
    ]
    fastest = min(run.fastest for run in runs)
    report.at_least("placements with binpack, noderesourcesfit and nodeorder, fastest", 1 / fastest, "/s", 7_000)
    runs = [
        engine.seconds_per_placement(cluster, sizes.placements, seed, engine.expected_fill_plugins)
        for seed in range(sizes.repeats)
    ]
    report.at_least("placements with expectedfill, mean", 1 / statistics.mean(run.mean for run in runs), "/s", 2_000)
    each = engine.seconds_per_first_decision(cluster, [engine.ScoresEachNode()])
    cost = each - engine.seconds_per_first_decision(cluster)
    report.at_most(f"first decision for a pod class: a score per node, {nodes:,} nodes", cost * 1e3, "ms", 1.5)
    spent = engine.seconds_per_anti_affinity(cluster)
    report.at_most(f"placement with pod anti-affinity, {size}, fastest", spent * 1e6, "µs", 500)


def large_clusters(report: Report, sizes: Sizes) -> None:
    """Decisions on 5,000 nodes, and how the cost of a placement scales with nodes and with running pods."""
    nodes, few, many = sizes.large, sizes.large, sizes.large * 8
    size = f"{nodes:,} nodes × 8 GPUs, {many:,} running pods"
    clusters = bench_cluster(nodes, few), bench_cluster(nodes, many)
    # The two clusters take turns, so that a noisy machine slows both.
    pairs = [
        [engine.seconds_per_placement(each, sizes.placements, seed) for each in clusters]
        for seed in range(sizes.repeats + 1)
    ]
    fast_few, fast_many = (min(pair[which].fastest for pair in pairs) for which in (0, 1))
    report.at_least(f"placements, {size}, fastest", 1 / fast_many, "/s", 5_000)
    mean = statistics.mean(pair[1].mean for pair in pairs)
    report.add(f"placements, {size}, mean", 1 / mean, "/s")
    slowdown = 100 * (fast_many / fast_few - 1)
    report.at_most(f"slowdown from {few:,} to {many:,} running pods, {nodes:,} nodes", slowdown, "%", 10)
    spent = engine.seconds_per_first_decision(clusters[1])
    report.at_most(f"first decision for a pod class, {nodes:,} nodes × 8 GPUs", spent * 1e3, "ms", 1)
    spent = engine.seconds_per_anti_affinity(clusters[1])
    report.add(f"placement with pod anti-affinity, {size}, fastest", spent * 1e6, "µs")
    del clusters
    for count in sizes.scaling:
        cost = engine.seconds_per_placement(bench_cluster(count, count * 4), min(sizes.placements, count * 10)).fastest
        report.add(f"scaling: placement, {count:,} nodes × 8 GPUs, 4 running pods per node", cost * 1e6, "µs")
    report.at_most(f"peak memory, {size}", engine.memory_of_cluster(nodes, many), "MB", 250)


def start_up(report: Report, sizes: Sizes) -> None:
    ratio = engine.start_up_ratio(sizes.start_ups)
    report.at_most("start-up: `tonnage --help` relative to `import click`", ratio, "×", 1.5)


def fair_shares(report: Report, sizes: Sizes) -> None:
    """Queues with KAI's rules."""
    table = queues.many_queues(sizes.queues)
    spent = queues.seconds_per_division(table)
    report.at_most(f"fair shares: division among {sizes.queues:,} queues, 4 resources", spent * 1e3, "ms", 1)
    spent = queues.seconds_per_placement(table)
    report.at_most("fair shares: charging a placement and reordering its queue", spent * 1e6, "µs", 20)
    spent = queues.seconds_per_reclaim_check()
    report.at_most("fair shares: reclaim check of 10 victims, 4 queues", spent * 1e6, "µs", 50)


def recording(report: Report, sizes: Sizes) -> None:
    """The extender's metrics, Events and log lines."""
    cluster = bench_cluster(sizes.nodes, sizes.running)
    cost = recorder.recording(cluster, sizes.recordings)
    report.at_most("recorder: metrics of one decision", cost.metrics, "µs", 10)
    report.add("recorder: placed pod, metrics and Event", cost.placed, "µs")
    report.add("recorder: bound pod, metrics, Event and log line", cost.bound, "µs")
    report.add(f"recorder: unschedulable pod, {sizes.nodes:,} nodes", cost.unschedulable, "µs")
    report.at_most("recorder: log line", cost.line, "µs", 50)
    scraped = recorder.scrape(cluster, sizes.scrapes)
    size = f"{sizes.nodes:,} nodes × 8 GPUs, {sizes.running:,} running pods"
    report.at_most(f"scrape of /metrics, {size}, gzip, median", scraped.whole, "ms", 150)
    report.at_most("  longest block of the event loop", scraped.longest_block, "ms", 10)


def simulation(report: Report, sizes: Sizes) -> None:
    """Filling clusters, and replaying a workload."""
    for policy in ("binpack", "fgd", "expectedfill"):
        for nodes in sizes.filled:
            # The largest cluster gets a tenth of the demand, which keeps the run short.
            speed = simulator.pods_per_second_filled(nodes, policy, 130 if nodes <= 1000 else 13)
            report.add(f"scaling: simulator fill, {nodes:,} nodes × 8 GPUs, {policy}", speed, "pods/s")
    speed = simulator.pods_per_second_replayed(sizes.nodes, "binpack", sizes.replayed)
    name = f"simulator replay with departures, {sizes.nodes:,} nodes × 8 GPUs, binpack"
    report.at_least(name, speed, "pods/s", 100_000 / 60)


def allocation(report: Report, sizes: Sizes) -> None:
    """Whole cycles of jobs in queues, with KAI's plugins."""
    few, many, runs = sizes.job_nodes[0], sizes.nodes, sizes.allocations
    spent = jobs.seconds_to_allocate(partial(jobs.jobs_cluster, few, sizes.jobs), runs)
    report.at_most(f"allocate: {sizes.jobs:,} single-pod jobs, 4 queues, {few:,} nodes × 8 GPUs", spent * 1e3, "ms", 30)
    spent = jobs.seconds_to_allocate(partial(jobs.jobs_cluster, few // 2, sizes.gangs, pods=4), runs)
    report.at_most(f"allocate: {sizes.gangs:,} gangs of 4 pods, {few // 2:,} nodes × 8 GPUs", spent * 1e3, "ms", 20)
    for nodes in sizes.job_nodes:
        spent = jobs.seconds_to_allocate(partial(jobs.jobs_cluster, nodes, sizes.jobs), runs // 3)
        name = f"scaling: allocate {sizes.jobs:,} jobs, {nodes:,} nodes × 8 GPUs, per job"
        report.add(name, spent / sizes.jobs * 1e6, "µs")
    for count in sizes.job_counts:
        spent = jobs.seconds_to_allocate(partial(jobs.jobs_cluster, many, count), 1 if count > 3000 else 3)
        report.add(f"scaling: allocate {count:,} jobs, {many:,} nodes × 8 GPUs, per job", spent / count * 1e6, "µs")
    report.at_most(f"allocate: {count:,} single-pod jobs, {many:,} nodes × 8 GPUs", spent, "s", 1.5)


def eviction(report: Report, sizes: Sizes) -> None:
    """Whole cycles on full clusters, with KAI's plugins and all actions."""
    half = sizes.job_nodes[0] // 2
    spent = evictions.seconds_to_make_room(partial(evictions.full_cluster, half, 1, 8, per_node=4), 4)
    report.at_most(f"consolidation: {half * 4:,} jobs, {half:,} nodes × 8 GPUs, a job of 8", spent * 1e3, "ms", 40)
    gang = sizes.gang
    for nodes in sizes.full_nodes:
        most = nodes / 1000
        # The gang asks for one GPU more than its quota, as in KAI's own measurement.
        make = partial(evictions.full_cluster, nodes, gang, gang * jobs.GPUS - 1)
        spent = evictions.seconds_to_make_room(make, 0)
        report.at_most(f"unschedulable gang of {gang} × 8 GPUs, over its quota, {nodes:,} full nodes", spent, "s", most)
        make = partial(evictions.full_cluster, nodes, nodes + 1, nodes * jobs.GPUS)
        spent = evictions.seconds_to_make_room(make, 0)
        name = f"unschedulable gang of {nodes + 1:,} × 8 GPUs, over the cluster's size, {nodes:,} full nodes"
        report.at_most(name, spent, "s", most)
    for nodes in sizes.reclaim_nodes:
        victims = nodes * jobs.GPUS // 2
        spent = evictions.seconds_to_make_room(partial(evictions.full_cluster, nodes, nodes // 2, victims), victims)
        report.add(f"scaling: reclaim half of {nodes:,} full nodes × 8 GPUs, per victim", spent / victims * 1e6, "µs")
    report.at_most(f"reclaim: gang of {nodes // 2:,} × 8 GPUs, {nodes:,} full nodes", spent, "s", 1)


def requeueing(report: Report, sizes: Sizes) -> None:
    """The extender's search for the pending pod that a freed card fits."""
    cluster = requeue.full_cluster(sizes.pending_nodes)
    for classes in sizes.classes:
        pods = requeue.PendingBenchmark(cluster, sizes.pending, classes)
        freed, longest = pods.seconds_per_freed_card()
        size = f"{sizes.pending:,} pending pods of {classes} pod classes, {sizes.pending_nodes:,} nodes"
        report.add(f"requeue after a freed card, {size}", freed * 1e3, "ms")
        report.add("  longest pass", longest * 1e3, "ms")
        report.at_most("  pass without changes", pods.seconds_per_idle_pass() * 1e6, "µs", 5)
        pods.close()


def explanation(report: Report, sizes: Sizes) -> None:
    """Explaining pods that wait, reading excluded."""
    size = f"{sizes.nodes:,} nodes × 8 GPUs, {sizes.running:,} pods"
    for name, made in (("HAMi's policies", explain.with_defaults), ("KAI's plugins, all actions", explain.with_kai)):
        costs = [made(sizes.nodes, sizes.running) for _ in range(sizes.repeats)]
        report.at_most(f"explain: why a pod waits, {size}, {name}", min(one.why for one in costs), "s", 0.3)
        report.at_most(f"explain: what would help, {size}, {name}", min(one.helps for one in costs), "s", 2)


def main() -> int:
    arguments = argument_parser("bench", __doc__).parse_args()
    return publish(arguments, lambda report: run(report, QUICK if arguments.quick else FULL))


if __name__ == "__main__":
    sys.exit(main())
