"""Sweeps: the same over one process and several, kept in a folder, and gone on with after an interruption."""

import pytest

from tests.simulator.traces.files import trace
from tonnage.model.wire import encode
from tonnage.simulator.policies import policy_named
from tonnage.simulator.source import Setting, SettingError
from tonnage.simulator.studies import sweep as module
from tonnage.simulator.studies.cache import Cache
from tonnage.simulator.studies.sweep import PlannedRun, RunOptions, Sweep


@pytest.fixture
def source(tmp_path):
    pods = "".join(f"p{n},{n * 300},10,1,{200 + 37 * n}\n" for n in range(12))
    return trace(tmp_path, "a,8000,1000,2,T4\nb,8000,1000,2,V100\n", pods)


@pytest.fixture
def jobs():
    return [PlannedRun(0, policy_named(name), seed, RunOptions()) for name in ("binpack", "spread") for seed in (1, 2)]


class Counting:
    """Counts the runs that are really made."""

    def __init__(self, monkeypatch):
        self.made = 0
        real = module.make_run

        def make(source, job):
            self.made += 1
            if self.made == self.fails_at:
                raise KeyboardInterrupt
            return real(source, job)

        self.fails_at = 0
        monkeypatch.setattr(module, "make_run", make)


def test_processes_make_no_difference(source, jobs):
    assert Sweep([source], None, 2).run(jobs) == Sweep([source], None, 1).run(jobs)


def test_what_was_made_is_not_made_again(source, jobs, tmp_path, monkeypatch):
    counting = Counting(monkeypatch)
    told = []
    cache = Cache(tmp_path / "cache", told.append)
    first = Sweep([source], cache, 1).run(jobs)
    assert Sweep([source], cache, 1).run(jobs) == first
    assert counting.made == len(jobs)
    assert not told


def test_an_interrupted_sweep_goes_on_where_it_stopped(source, jobs, tmp_path, monkeypatch):
    counting = Counting(monkeypatch)
    cache = Cache(tmp_path / "cache", print)
    counting.fails_at = 3
    with pytest.raises(KeyboardInterrupt):
        Sweep([source], cache, 1).run(jobs)
    progress = []
    runs = Sweep([source], cache, 1).run(jobs, progress.append)
    assert counting.made == 5
    assert progress == [2, 1, 1]
    assert runs == Sweep([source], None, 1).run(jobs)


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b'{"checkpoints": 3}', b"\xff\xfe"])
def test_a_broken_entry_is_told_about_and_made_again(source, jobs, tmp_path, content):
    told = []
    cache = Cache(tmp_path / "cache", told.append)
    first = Sweep([source], cache, 1).run(jobs[:1])
    (entry,) = (tmp_path / "cache").iterdir()
    entry.write_bytes(content)
    assert Sweep([source], cache, 1).run(jobs[:1]) == first
    assert len(told) == 1
    assert told[0].startswith(f"{entry}: a broken cache entry")
    assert entry.read_bytes() == encode(first[0])


def test_everything_that_matters_is_part_of_a_run_s_name(source, jobs, tmp_path):
    cache = Cache(tmp_path / "cache", print)
    others = [
        jobs[0],
        PlannedRun(0, jobs[0].policy, 3, RunOptions()),
        PlannedRun(0, jobs[0].policy, 1, RunOptions(demand=100)),
        PlannedRun(0, jobs[2].policy, 1, RunOptions()),
        PlannedRun(1, jobs[0].policy, 1, RunOptions()),
    ]
    Sweep([source, source.with_settings([Setting("nodes.t4.count", "2")])], cache, 1).run(others)
    assert len(list((tmp_path / "cache").iterdir())) == len(others)


# -- changes of a trace


def test_nodes_of_a_model_become_more_or_fewer(source):
    more = source.with_settings([Setting("nodes.t4.count", "3")]).scene()
    assert [node.name for node in more.nodes] == ["a", "b", "a-more-0000", "a-more-0001"]
    none = source.with_settings([Setting("nodes.T4.count", "0")]).scene()
    assert [node.name for node in none.nodes] == ["b"]


def test_pods_of_a_whole_gpu_make_do_with_a_share(tmp_path):
    source = trace(tmp_path, "a,8000,1000,2,T4\n", "w,1,1,1,1000\nd,1,1,2,1000\n")
    scene = source.with_settings([Setting("pods.share", "500")]).scene()
    assert sorted(shape.gpus for shape, _ in scene.popular) == [0.5, 2.0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("nodes.g2.count", "5", "no node has GPUs of model g2; known are t4, v100"),
        ("nodes.t4.count", "some", "expected a whole number from 0 up, got 'some'"),
        ("nodes.t4.size", "5", "nodes have no size"),
        ("pods.share", "2000", "expected 1 to 1000"),
        ("weather", "5", "in a trace there are nodes.MODEL.count and pods.share"),
    ],
)
def test_a_change_that_does_not_fit_is_refused(source, path, value, message):
    with pytest.raises(SettingError) as caught:
        source.with_settings([Setting(path, value)])
    assert message in str(caught.value)
