"""What `tonnage lab` says before it starts anything."""

from pathlib import Path

import pytest

from tests.cli.command import tonnage
from tonnage.lab.parts import VERSIONS


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--scheduler", "--extender"], "--scheduler or --extender, not both"),
        (["--extender", "--no-kube-scheduler"], "--extender needs kube-scheduler"),
        (["--sample", "sharing", "--nodes", "0"], "--sample needs nodes"),
        (["--sample", "gangs", "--extender"], "--sample gangs needs --scheduler"),
        (["--sample", "queues", "--extender"], "--sample queues needs --scheduler"),
        (["--sample", "sharing", "--kubelet"], "--sample or --kubelet, not both"),
        (["--bin-dir", "/", "--kubernetes-version", "1.34"], "--bin-dir or --kubernetes-version, not both"),
        (["--kubernetes-version", "1.2"], "'1.2' is not one of " + ", ".join(f"'{minor}'" for minor in VERSIONS)),
        (["--sample", "gang"], "'gang' is not one of 'gangs', 'sharing', 'queues'"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(flags: list[str], said: str) -> None:
    done = tonnage("lab", *flags)
    assert done.returncode == 2
    assert said in done.stderr
    assert not done.stdout


def test_a_folder_without_the_programs_is_refused(tmp_path: Path) -> None:
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "kube-scheduler").write_text("not executable")
    done = tonnage("lab", "--bin-dir", str(tmp_path))
    assert done.returncode == 2
    assert f"--bin-dir {tmp_path} has no kube-scheduler; give a folder that has etcd, kube-apiserver" in done.stderr
    done = tonnage("lab", "--bin-dir", str(tmp_path / "nowhere"))
    assert done.returncode == 2
    assert "there is no such folder" in done.stderr


def test_without_containerd_and_runc_a_real_node_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    done = tonnage("lab", "--kubelet", PATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("Error: --kubelet: ")
    assert "a kubelet needs" in done.stderr
