"""Small traces and workloads written to files, and simulations of them."""

import textwrap
from pathlib import Path

from tonnage.simulator.policies import policy_named
from tonnage.simulator.run import Run
from tonnage.simulator.source import SceneSource
from tonnage.simulator.studies.sweep import PlannedRun, RunOptions, make_run
from tonnage.simulator.traces.openb import read_trace
from tonnage.simulator.workloads.workload import read_workload

NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
TIMED = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def trace(folder: Path, nodes: str, pods: str, header: str = PODS) -> SceneSource:
    """A trace of these lines, without their first ones."""
    return SceneSource(
        trace=read_trace(write(folder, "nodes.csv", NODES + nodes), write(folder, "pods.csv", header + pods))
    )


def workload(text: str) -> SceneSource:
    return SceneSource(workload=read_workload(textwrap.dedent(text), "workload.yaml"))


def simulate(source: SceneSource, policy: str = "binpack", seed: int = 1, **options: object) -> Run:
    """What a policy makes of it."""
    return make_run(source, PlannedRun(0, policy_named(policy), seed, RunOptions(**options)))  # type: ignore[arg-type]
