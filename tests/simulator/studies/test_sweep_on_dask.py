"""A sweep on a Dask cluster of separate processes: the same runs, also if a worker is killed in the middle."""

import os
import signal

from tests.simulator.studies.workers import start
from tests.simulator.traces.files import trace
from tonnage.simulator.policies import policy_named
from tonnage.simulator.studies.cache import Cache
from tonnage.simulator.studies.sweep import PlannedRun, RunOptions, Sweep


def test_runs_are_the_same_and_kept_when_a_worker_is_killed(tmp_path):
    pods = "".join(f"p{n},{n * 300},10,1,{200 + 37 * n}\n" for n in range(12))
    source = trace(tmp_path, "a,8000,1000,2,T4\nb,8000,1000,2,V100\n", pods)
    jobs = [PlannedRun(0, policy_named(name), seed, RunOptions()) for name in ("fgd", "spread") for seed in range(6)]
    cache = Cache(tmp_path / "cache", print)
    for cluster in start(2):
        victims = [worker.pid for worker in cluster.workers.values()][:1]

        def kill_one(done: int, victims: list[int] = victims) -> None:
            if done and victims:
                os.kill(victims.pop(), signal.SIGKILL)

        runs = Sweep([source], cache, 1, cluster.scheduler_address).run(jobs, kill_one)
        assert not victims
    assert runs == Sweep([source], None, 1).run(jobs)
    assert len(list((tmp_path / "cache").iterdir())) == len(jobs)
