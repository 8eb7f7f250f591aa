"""`tonnage scheduler` at its command line: what is wrong is said, and how to mend it."""

from pathlib import Path

from tests.cli.command import tonnage


def test_a_configuration_that_is_wrong_is_refused_with_its_place(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("actions: allocate, alocate\ntiers: []\n")
    done = tonnage("scheduler", "--config", config)
    assert done.returncode == 2
    assert "config.yaml:1:20" in done.stderr
    assert "there is no action alocate" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cluster_that_is_not_configured_is_named(tmp_path: Path) -> None:
    done = tonnage("scheduler", "--kubeconfig", tmp_path / "none")
    assert done.returncode == 1
    assert "there is no such file; give the path of a kubeconfig file" in done.stderr


def test_an_address_that_is_none_is_refused() -> None:
    done = tonnage("scheduler", "--http-bind", "8080")
    assert done.returncode == 2
    assert "'8080' is no address" in done.stderr


def test_a_config_map_that_is_named_in_no_way_is_refused() -> None:
    done = tonnage("scheduler", "--config", "configmap:batch")
    assert done.returncode == 2
    assert "'configmap:batch' names no ConfigMap; expected configmap:NAMESPACE/NAME" in done.stderr


def test_durations_of_the_lease_that_do_not_go_together_are_refused() -> None:
    done = tonnage("scheduler", "--leader-elect-renew-deadline", "10s")
    assert done.returncode == 2
    assert "the renew deadline (10s) must be shorter than the lease duration (9s)" in done.stderr
    done = tonnage("scheduler", "--leader-elect-retry-period", "soon")
    assert done.returncode == 2
    assert "'soon' is no duration" in done.stderr
