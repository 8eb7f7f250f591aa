"""The sweep: runs of policies × sources × seeds over local processes, each cached as soon as it is done.

A job is plain data and its result depends on nothing else, so it may run anywhere and is cached by its key.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path

import msgspec

from tonnage.model.wire import encode
from tonnage.simulator.fill import fill
from tonnage.simulator.policies import Policy
from tonnage.simulator.run import Run
from tonnage.simulator.scene import Scene
from tonnage.simulator.source import SceneSource
from tonnage.simulator.studies.cache import Cache, code_digest
from tonnage.simulator.studies.distributed import run_on_dask
from tonnage.simulator.timedrun import replay

FILL, REPLAY = "fill", "replay"
MODES = (FILL, REPLAY)


class RunOptions(msgspec.Struct, frozen=True):
    """The options of a run."""

    mode: str = FILL
    demand: int = 130
    """In a fill, the final demand in percent of all GPUs."""
    keep: bool = False
    """In a fill, whether pods that do not fit wait."""
    picture: int = 100
    """The percent of arrived demand, or of the time, at which the picture of the cluster is taken."""


class PlannedRun(msgspec.Struct, frozen=True):
    """One run to be made."""

    source: int
    """The index of the source."""
    policy: Policy
    seed: int
    options: RunOptions


class Sweep:
    """Runs jobs on some sources."""

    def __init__(
        self, sources: Sequence[SceneSource], cache: Cache | None, processes: int, dask: str | None = None
    ) -> None:
        self._sources = sources
        self._digests = [source.digest() for source in sources]
        self._cache = cache
        self._processes = processes
        self._dask = dask
        """The address of a Dask cluster that runs the jobs instead of local processes."""

    def run(self, jobs: Sequence[PlannedRun], progress: Callable[[int], None] = lambda done: None) -> list[Run]:
        """The runs of all jobs, in order; `progress` receives the number of newly finished ones."""
        keys = [self._key(job) for job in jobs]
        found: dict[int, Run] = {}
        for number, key in enumerate(keys):
            known = self._cache.get(key) if self._cache is not None else None
            if known is not None:
                found[number] = known
        progress(len(found))
        left = [number for number in range(len(jobs)) if number not in found]

        def done(place: int, run: Run) -> None:
            number = left[place]
            if self._cache is not None:
                self._cache.keep(keys[number], run)
            found[number] = run
            progress(1)

        if self._dask is not None and left:
            run_on_dask(self._dask, _run_of, self._sources, [jobs[number] for number in left], done)
        else:
            for place, run in self._runs([jobs[number] for number in left]):
                done(place, run)
        return [found[number] for number in range(len(jobs))]

    def _key(self, job: PlannedRun) -> str:
        """The hash of everything that the result depends on."""
        files = [sha256(Path(path).read_bytes()).hexdigest() for path in job.policy.plugin_files]
        content = [
            code_digest(),
            self._digests[job.source],
            job.policy.name,
            job.policy.text,
            files,
            job.seed,
            job.options,
        ]
        return sha256(encode(content)).hexdigest()

    def _runs(self, jobs: Sequence[PlannedRun]) -> Iterator[tuple[int, Run]]:
        """The jobs' indexes and runs, as they finish."""
        if self._processes <= 1 or len(jobs) <= 1:
            for number, job in enumerate(jobs):
                yield number, make_run(self._sources[job.source], job)
            return
        processes = min(self._processes, len(jobs))
        with ProcessPoolExecutor(processes, get_context("spawn"), _receive, (self._sources,)) as pool:
            numbers = {pool.submit(_run, job): number for number, job in enumerate(jobs)}
            try:
                for future in as_completed(numbers):
                    yield numbers[future], future.result()
            finally:
                # After a failure or an interruption no further job starts; finished runs stay cached.
                pool.shutdown(wait=False, cancel_futures=True)


def make_run(source: SceneSource, job: PlannedRun) -> Run:
    """Run a job."""
    scene, options = _scene(source), job.options
    if options.mode == REPLAY:
        return replay(scene, job.policy, job.seed, options.picture)
    return fill(scene, job.policy, job.seed, options.demand, options.keep, options.picture)


_scenes: dict[int, tuple[SceneSource, Scene]] = {}


def _scene(source: SceneSource) -> Scene:
    """The scene of a source, built once while the source is in use."""
    known = _scenes.get(id(source))
    if known is None or known[0] is not source:
        known = _scenes[id(source)] = source, source.scene()
    return known[1]


_received: Sequence[SceneSource] = ()


def _receive(sources: Sequence[SceneSource]) -> None:
    """Initialize a worker process, so that sources are sent once."""
    global _received
    _received = sources
    # Ctrl-C reaches every process of the terminal; a worker ends silently.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _run(job: PlannedRun) -> Run:
    return _run_of(_received, job)


def _run_of(sources: Sequence[SceneSource], job: PlannedRun) -> Run:
    return make_run(sources[job.source], job)
