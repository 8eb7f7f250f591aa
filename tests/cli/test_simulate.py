"""`tonnage simulate` as a user types it: policies side by side, files, and bad input."""

import csv
import json
import os

import pytest
from click.testing import CliRunner, Result

from tests.simulator.traces.files import NODES, PODS, TIMED, write
from tonnage.cli.group import group
from tonnage.simulator.policies import POLICIES

COMPARED = {"fill": "100", "replay": "average"}


def simulate(*arguments: object) -> Result:
    result = CliRunner().invoke(group, ["simulate", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def trace(tmp_path):
    """The options of a small trace, with a cache of its own."""
    nodes = write(tmp_path, "nodes.csv", NODES + "a,8000,1000,2,T4\nb,8000,1000,4,V100\n")
    lines = "".join(f"p{n},{n * 300},10,1,{200 + 37 * n},,LS,Running,{n},{n + 50},\n" for n in range(20))
    pods = write(tmp_path, "pods.csv", TIMED + lines)
    return ["--nodes", nodes, "--pods", pods, "--cache", tmp_path / "cache", "--processes", 1]


def test_policies_stand_side_by_side_in_a_table(trace):
    result = simulate(*trace, "--policy", "binpack", "--policy", "spread", "--seeds", 2)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("pods: 2 nodes, 6 GPUs, ")
    assert lines[0].endswith("2 seeds, at 100 % of arrived demand")
    assert lines[2].split()[:3] == ["POLICY", "GPU", "ALLOCATED"]
    assert [line.split()[0] for line in lines[3:5]] == ["binpack", "spread"]


def test_json_has_means_by_policy_measure_and_checkpoint(trace):
    document = json.loads(simulate(*trace, "--policy", "binpack,spread", "--seeds", 2, "-o", "json").stdout)
    assert list(document["policies"]) == ["binpack", "spread"]
    allocated = document["policies"]["binpack"]["gpu_allocated"]
    assert list(allocated) == [str(percent) for percent in range(131)]
    assert set(allocated["100"]) == {"mean", "sd"}
    assert allocated["0"] == {"mean": 0.0, "sd": 0.0}
    assert 50 < allocated["100"]["mean"] <= 100
    assert document["seeds"] == [42, 43]
    assert document["mode"] == "fill"
    assert document["command"].startswith("tonnage simulate --nodes ")
    assert document["versions"]["tonnage"]
    assert document["policies"]["binpack"]["picture"]["checkpoint"] == "100"


@pytest.mark.parametrize("mode", ["fill", "replay"])
def test_one_seed_gives_the_same_bytes_every_time(trace, mode):
    options = [*trace[:4], "--no-cache", "--mode", mode, "--policy", "binpack,spread", "--seeds", 2, "-o", "json"]
    first, *others = [simulate(*options).stdout_bytes for _ in range(3)]
    assert others == [first, first]
    assert len(json.loads(first)["policies"]) == 2


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_be_named(trace, policy):
    result = simulate(*trace, "--policy", policy, "-o", "json")
    assert result.exit_code == 0, result.stderr
    assert list(json.loads(result.stdout)["policies"]) == [policy]


def test_a_configuration_file_is_a_policy(trace, tmp_path):
    config = write(
        tmp_path, "mine.yaml", "actions: allocate\ntiers: [{plugins: [{name: priority}, {name: nodepolicy}]}]\n"
    )
    result = simulate(*trace, "--policy", config, "-o", "json")
    assert list(json.loads(result.stdout)["policies"]) == ["mine"]


def test_a_change_is_run_beside_what_is_unchanged(trace):
    result = simulate(*trace, "--policy", "binpack", "--set", "nodes.t4.count=3,pods.share=500", "-o", "json")
    assert list(json.loads(result.stdout)["policies"]) == ["binpack", "binpack, nodes.t4.count=3, pods.share=500"]


def test_several_traces_are_several_workloads(trace, tmp_path):
    more = write(tmp_path, "more.csv", PODS + "p,1000,10,1,1000\n")
    document = json.loads(simulate(*trace, "--pods", more, "--policy", "binpack", "-o", "json").stdout)
    assert list(document["workloads"]) == ["pods", "more"]


def test_every_figure_is_in_the_csv(trace, tmp_path):
    result = simulate(*trace, "--policy", "binpack", "--csv", tmp_path / "out.csv")
    assert result.exit_code == 0
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert {row["measure"] for row in rows} >= {"gpu_allocated", "fragmentation_of_all", "pods_failed", "failures"}
    assert {row["policy"] for row in rows} == {"binpack"}


def figures_of(table: str) -> dict[str, float]:
    """The allocated GPUs by policy that a table shows."""
    rows = [line.split() for line in table.splitlines()[3:] if line.strip()]
    return {row[0]: float(row[1]) for row in rows if row[0] in POLICIES}


@pytest.mark.parametrize("mode", ["fill", "replay"])
def test_table_json_csv_and_report_have_the_same_figures(trace, tmp_path, mode):
    options = [*trace, "--mode", mode, "--policy", "binpack,spread"]
    shown = simulate(*options, "--csv", tmp_path / "out.csv", "--report", tmp_path / "report.html")
    document = json.loads(simulate(*options, "-o", "json").stdout)
    rows = csv.DictReader((tmp_path / "out.csv").read_text().splitlines())
    at = {
        row["policy"]: float(row["mean"])
        for row in rows
        if (row["measure"], row["at"]) == ("gpu_allocated", COMPARED[mode])
    }
    told = {name: policy["compared"]["gpu_allocated"]["mean"] for name, policy in document["policies"].items()}
    assert document["compared_at"] == COMPARED[mode]
    assert at == told
    assert figures_of(shown.stdout) == {name: pytest.approx(value, abs=0.0051) for name, value in told.items()}
    for value in told.values():
        assert f"{value:.2f}\u202f%" in (tmp_path / "report.html").read_text()


def test_averages_of_a_replay_are_called_so(trace):
    heading = simulate(*trace, "--mode", "replay", "--policy", "binpack").stdout.splitlines()[0]
    assert heading.endswith("averages over 19s, until the last pod arrives")


def test_reasons_add_up_to_the_failed_pods_beside_them(trace):
    document = json.loads(simulate(*trace, "--policy", "binpack", "-o", "json").stdout)
    (policy,) = document["policies"].values()
    failed = sum(count["mean"] for count in policy["failures"].values())
    assert failed == policy["compared"]["pods_failed"]["mean"] > 0
    assert policy["pods_failed"]["130"]["mean"] > failed
    table = simulate(*trace, "--policy", "binpack").stdout
    assert "binpack: pods that had failed at 100 % of arrived demand, by the reason of most nodes" in table


def test_the_upper_bound_is_above_every_policy(trace):
    pytest.importorskip("highspy")
    document = json.loads(simulate(*trace, "--policy", "fgd,binpack", "--seeds", 2, "-o", "json").stdout)
    assert list(document["bound"])[-1] == "130"
    for place, bound in document["bound"].items():
        for policy in document["policies"].values():
            assert policy["gpu_allocated"][place]["mean"] <= bound + 0.001


def test_a_report_is_written_as_a_page_of_its_own(trace, tmp_path):
    more = write(tmp_path, "more.csv", PODS + "p,1000,10,1,1000\n")
    assert simulate(*trace, "--policy", "fgd", "--report", tmp_path / "one.html").exit_code == 0
    assert simulate(*trace, "--pods", more, "--policy", "fgd", "--report", tmp_path / "two.html").exit_code == 0
    assert {path.name for path in tmp_path.glob("*.html")} == {"one.html", "two-pods.html", "two-more.html"}
    assert "fgd" in (tmp_path / "one.html").read_text()


def test_the_example_can_be_used_as_it_is(tmp_path):
    example = simulate("--init")
    path = write(tmp_path, "workload.yaml", example.stdout.replace("duration: 24h ", "duration: 2h "))
    options = ["--workload", path, "--no-cache", "--processes", 1, "--policy", "binpack"]
    replayed, filled = simulate(*options), simulate(*options, "--mode", "fill", "--queue-failed", "--demand", 60)
    assert replayed.exit_code == 0, replayed.stderr
    assert "WAIT p95" in replayed.stdout
    assert filled.exit_code == 0, filled.stderr
    assert "WAITING" in filled.stdout


def test_pods_that_can_never_run_are_told_about_and_the_rest_is_simulated(trace, tmp_path):
    lines = "".join(f"p{n},1000,10,7,1000\n" for n in range(7)) + "ok,1000,10,1,1000\n"
    result = simulate(
        *trace[:2], "--no-cache", "--pods", write(tmp_path, "big.csv", PODS + lines), "--policy", "binpack"
    )
    assert result.exit_code == 0
    assert "big.csv line 2 column 12: p0 can never run: it is larger than any node" in result.stderr
    assert "... and 2 more pods that can never run" in result.stderr


# -- bad input


def refused(*arguments: object) -> str:
    result = simulate(*arguments)
    assert result.exit_code == 2, result.output
    assert not result.stdout
    return result.stderr


def test_a_policy_with_a_typo_is_refused_with_the_nearest_name(trace):
    assert "there is no policy binpak; did you mean binpack?" in refused(*trace, "--policy", "binpak")
    assert "known are expectedfill, fgd, best-fit, dot-product" in refused(*trace, "--policy", "zzz")
    assert "there is no such file" in refused(*trace, "--policy", "none.yaml")


def test_a_configuration_that_is_wrong_is_refused_with_its_place(trace, tmp_path):
    config = write(tmp_path, "bad.yaml", "actions: alocate\n")
    assert f"{config}:1:10: there is no action alocate" in refused(*trace, "--policy", config)


def test_what_belongs_together_is_asked_for(trace):
    assert "give both --nodes and --pods" in refused(*trace[:2])
    assert "give either a trace" in refused()
    assert "give either a trace" in refused(*trace, "--workload", "x.yaml")
    assert "-f goes with --workload" in refused(*trace, "-f", "x.yaml")


def test_a_trace_that_is_wrong_is_refused_with_its_place(trace, tmp_path):
    bad = write(tmp_path, "bad.csv", PODS + "p,1,1,one,1000\n")
    assert f"{bad} line 2 column 7: num_gpu: expected a whole number" in refused(*trace[:2], "--pods", bad)


def test_a_change_that_does_not_fit_is_refused(trace):
    assert "--set nodes: expected PATH=VALUE" in refused(*trace, "--set", "nodes")
    assert "no node has GPUs of model t5; known are t4, v100" in refused(*trace, "--set", "nodes.t5.count=3")


def test_a_trace_without_times_is_not_replayed(trace, tmp_path):
    pods = write(tmp_path, "bare.csv", PODS + "p,1000,10,1,1000\n")
    assert "bare does not say when pods come" in refused(*trace[:2], "--pods", pods, "--mode", "replay", "--no-cache")


def test_a_file_that_cannot_be_written_is_refused_before_the_first_run(trace, tmp_path):
    missing = tmp_path / "none" / "out.csv"
    assert "there is no folder" in refused(*trace, "--csv", missing)
    assert "is a folder" in refused(*trace, "--csv", tmp_path)
    assert "there is no folder" in refused(*trace, "--report", tmp_path / "none" / "out.html")
    assert not (tmp_path / "cache").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(trace, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    assert "no permission" in refused(*trace, "--csv", tmp_path / "locked" / "out.csv")


def test_a_cache_that_cannot_be_is_refused(trace, tmp_path):
    write(tmp_path, "file", "")
    assert "runs cannot be kept there" in refused(*trace[:4], "--cache", tmp_path / "file" / "cache")


def test_nothing_is_left_behind_by_a_run_that_fails(trace, tmp_path):
    pods = write(tmp_path, "bare.csv", PODS + "p,1000,10,0,0\n")
    refused(*trace[:2], "--pods", pods, "--no-cache", "--csv", tmp_path / "out.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bare.csv", "nodes.csv", "pods.csv"]
