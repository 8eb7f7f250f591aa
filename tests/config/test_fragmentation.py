"""The arguments of the fragmentation plugin: typical pods in the configuration, in a file, or in a trace."""

from pathlib import Path

import pytest

from tests.config.texts import errors, load, with_plugin
from tests.paths import OPENB
from tests.simulator.traces.invented import invented_trace
from tonnage.config.argumentfiles import file_content
from tonnage.config.defaults import with_flags
from tonnage.config.load import load_file
from tonnage.config.notes import ConfigError
from tonnage.plugins.fragmentation.fragmentation import FragmentationGradient
from tonnage.plugins.fragmentation.typicalpods import TypicalPods, kind_of, traced_kind, traced_workload, workload_of

TRACE = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
a,4000,100,1,470,
b,4000,100,1,470,
c,8000,100,2,1000,V100M32|V100M16
d,1000,100,0,0,
"""


def usual(configuration: str) -> TypicalPods:
    return found(load(configuration).plugins)


def found(plugins: list) -> TypicalPods:
    (plugin,) = [plugin for plugin in plugins if isinstance(plugin, FragmentationGradient)]
    return workload_of(plugin.args.workload)


def in_file(folder: Path, name: str, content: str) -> str:
    """The path of a configuration that names a file beside it."""
    (folder / name).write_text(content)
    path = folder / "scheduler.yaml"
    path.write_text(with_plugin("fragmentation", f"arguments: {{workload_file: {name}}}"))
    return str(path)


def complaint(path: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_file(path)
    (note,) = caught.value.errors
    return note.message


def test_one_line_is_enough() -> None:
    assert usual(with_plugin("fragmentation")) == ()


def test_usual_pods_may_be_listed() -> None:
    kinds = "[{cpu: 500m, gpus: 1, share: 0.25, popularity: 3}, {gpus: 8, models: [A100]}]"
    first, second = usual(with_plugin("fragmentation", f"arguments: {{workload: {kinds}}}"))
    assert (first.kind, first.popularity) == (kind_of(500, 1, 0.25), 0.75)
    assert (second.kind, second.popularity) == (kind_of(0, 8, 1.0, ("A100",)), 0.25)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("workload: [{gpus: -1}]", "gpus: -1 is below 0"),
        ("workload: [{gpus: 1, share: 1.5}]", "share: 1.5 is not above 0 and at most 1"),
        ("workload: [{cpu: many}]", "'many' is not a quantity"),
        ("workload: [{popularity: 0}]", "popularity: 0.0 is not above 0"),
        ("workload: [{gpu: 1}]", "did you mean gpus?"),
        ("half_life_days: 0", "half_life_days: 0.0 is not a number of days above 0"),
        ("workload_file: nowhere.csv", "nowhere.csv"),
        ("workload_file: 3", "expected the path of a file"),
    ],
)
def test_nonsense_is_an_error_at_its_place(arguments: str, words: str) -> None:
    (said,) = errors(with_plugin("fragmentation", f"arguments: {{{arguments}}}"))
    assert words in said


def test_usual_pods_may_be_in_a_file_beside_the_configuration(tmp_path: Path) -> None:
    path = in_file(tmp_path, "pods.yaml", "- {cpu: 2, gpus: 1, share: 0.5}\n- {cpu: 4}\n")
    assert [pod.kind for pod in found(load_file(path).plugins)] == [kind_of(2000, 1, 0.5), kind_of(4000, 0, 0)]


def test_usual_pods_may_be_those_of_a_trace(tmp_path: Path) -> None:
    pods = found(load_file(in_file(tmp_path, "pods.csv", TRACE)).plugins)
    assert [(pod.kind, pod.popularity) for pod in pods] == [
        (kind_of(4000, 1, 0.47), 0.5),
        (kind_of(1000, 0, 0), 0.25),
        (kind_of(8000, 2, 1.0, ("V100M16", "V100M32")), 0.25),
    ]


def test_the_usual_pods_of_a_trace_are_fewer_than_its_kinds_and_all_of_them_occur(tmp_path: Path) -> None:
    trace = invented_trace(tmp_path)
    rows = file_content("workload_file", trace.pods, Path()).value
    kinds, usual_ones = {traced_kind(row) for row in rows}, traced_workload(rows)
    assert {pod.kind for pod in usual_ones} < kinds
    assert sum(pod.popularity for pod in usual_ones) == pytest.approx(1)


@pytest.mark.openb
def test_the_usual_pods_of_the_recorded_trace_are_as_many_as_published() -> None:
    trace = OPENB / "openb_pod_list_default.csv"
    rows = file_content("workload_file", str(trace), Path()).value
    assert len({traced_kind(row) for row in rows}) == 91
    assert len(traced_workload(rows)) == 35


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("pods.csv", TRACE.replace("d,1000,", "d,many,"), "pods.csv: line 5: cpu_milli: 'many' is not a whole number"),
        ("pods.csv", TRACE.replace("1,470", "1,1470"), "pods.csv: line 2: gpu_milli: 1470 is not above 0 and at most"),
        ("pods.csv", TRACE + "e,1\n", "pods.csv: line 6: 2 values where the first line names 6 columns"),
        ("pods.csv", "name\nx\n", "pods.csv: line 2: cpu_milli: '' is not a whole number"),
        ("pods.csv", "", "pods.csv: "),
        ("pods.yaml", "- {gpus: many}\n", "pods.yaml: [0].gpus: "),
        ("pods.yaml", "a: [\n", "pods.yaml:"),
        ("pods.yaml", "[]\n", "pods.yaml: holds no pods"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, name: str, content: str, words: str) -> None:
    assert words in complaint(in_file(tmp_path, name, content))


def test_usual_pods_are_told_once(tmp_path: Path) -> None:
    path = in_file(tmp_path, "pods.csv", TRACE)
    text = with_plugin("fragmentation", "arguments: {workload_file: pods.csv, workload: [{gpus: 1}]}")
    Path(path).write_text(text)
    assert complaint(path) == "workload_file is given beside workload; keep one of them"


def test_a_flag_for_cards_leaves_nodes_to_the_plugin() -> None:
    plugins = with_flags(load(with_plugin("fragmentation")).plugins, None, "binpack", None)
    kept = {plugin.name: plugin.options.switched_off for plugin in plugins}
    assert kept["fragmentation"] == {"GPU order"}
    assert kept["gpupolicy"] == frozenset()
