"""Output of `tonnage up` without a terminal: a line per interval, and the summary at the end."""

from typing import TYPE_CHECKING

import click

from tonnage.cli.up.durations import clock
from tonnage.model.duration import format_seconds

if TYPE_CHECKING:
    from tonnage.cli.up.liverun import LiveRun
    from tonnage.plugins.fragmentation.usablecards import FreeCards
    from tonnage.simulator.measure import Summary


def log_lines(run: "LiveRun", duration: float, interval: float) -> None:
    from tonnage.overview.usage import measure

    replay, number = run.replay, 1
    while run.until(min(number * interval, duration)):
        usage = measure(replay.cluster)
        click.echo(
            f"{clock(replay.now)}  running {replay.running:5d}  waiting {len(replay.waiting):4d}"
            f"  finished {replay.finished:6d}  GPU memory {usage.memory:5.1f}%"
            f"  fragmentation {replay.cards.count().fragmentation:5.1f}%  decisions {replay.decisions:7d}"
        )
        if replay.now >= duration:
            return
        number += 1


def as_data(summary: "Summary", cards: "FreeCards", policy: str, seed: int, nodes: int, gpus: int) -> dict[str, object]:
    from msgspec.structs import asdict

    free = {"gpus_free": round(cards.free, 3), "gpus_free_usable": round(cards.usable, 3)}
    return {"policy": policy, "seed": seed, "nodes": nodes, "gpus": gpus, **asdict(summary), **free}


def as_text(
    summary: "Summary", free: "FreeCards", policy: str, seed: int, nodes: int, gpus: int, run: "LiveRun"
) -> str:
    pods, waits, cards = summary.pods, summary.wait_seconds, summary.cards
    reasons = [f"{reason.pods:,} x {reason.reason}" for reason in summary.waited_for[:4]]
    table = [
        (
            "pods",
            f"{pods.arrived:,} arrived, {pods.placed:,} placed, {pods.finished:,} finished, {pods.waiting:,} waiting",
        ),
        (
            "waiting time",
            f"mean {format_seconds(waits.mean)}, median {format_seconds(waits.p50)}, "
            f"95% within {format_seconds(waits.p95)}, longest {format_seconds(waits.max)}",
        ),
        *(("" if number else "waited for", reason) for number, reason in enumerate(reasons or ["nothing"])),
        *(
            (title, f"{course.mean:.1f}% on average, {course.final:.1f}% at the end")
            for title, course in (
                ("GPU memory", summary.gpu_memory_percent),
                ("GPU cores", summary.gpu_cores_percent),
                ("fragmentation", summary.fragmentation_percent),
            )
        ),
        ("GPUs at the end", f"{cards.full:,} full, {cards.partial:,} partly used, {cards.idle:,} idle"),
        ("free GPUs", f"{free.free:,.1f} in all at the end, of which a typical pod can use {free.usable:,.1f}"),
        ("free nodes", f"{summary.free_nodes:,}"),
        ("problems", f"{summary.problems:,}"),
    ]
    wall = run.clock() - run.begun
    most = f", {1e6 / run.each:,.0f} per second if nothing were waited for" if run.each else ""
    return "\n".join(
        [
            "",
            f"{format_seconds(summary.duration)} of virtual time: {nodes:,} nodes x {gpus} GPUs, {policy}, seed {seed}",
            "",
            *(f"  {title:<17}{text}" for title, text in table),
            "",
            f"{summary.decisions:,} decisions in {wall:.1f} s: {run.each:,.0f} us of work each{most}",
        ]
    )
