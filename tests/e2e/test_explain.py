"""`tonnage explain` on a real API server: a pod that waits, the change that is suggested, and the rights it takes."""

import json
from pathlib import Path

from tests.cli.command import tonnage
from tests.e2e.viewers import deployed_rules, viewer
from tests.scenario import node, pod, running
from tonnage.lab.control_plane import ControlPlane


def test_a_pod_is_explained_with_the_rights_to_look_and_the_suggestion_is_accepted(
    fresh_control_plane: ControlPlane, tmp_path: Path
) -> None:
    plane = fresh_control_plane
    plane.api.create_nodes([node("a", gpus=1)])
    plane.api.create_pods([running("x", on="a", memory=5000), pod("p", 1, memory=4000)])
    kubeconfig = viewer(plane, tmp_path, "may-look", deployed_rules())
    done = tonnage("explain", "p", "--kubeconfig", kubeconfig, "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["misses"][0]["sentence"] == "a lacks 1,000 MiB on its best card; 1 pod holds it"
    (request,) = (one for one in found["suggestions"] if one["kind"] == "request")
    # As kubectl would do it: the pod as it is, with the patch, made anew.
    limits = request["patch"]["spec"]["containers"][0]["resources"]["limits"]
    plane.api.delete("/api/v1/namespaces/default/pods/p")
    plane.api.create_pods([pod("p", 1, memory=int(limits["nvidia.com/gpumem"]))])
    done = tonnage("explain", "p", "--kubeconfig", kubeconfig)
    assert done.stdout.startswith("default/p fits now: the next cycle places it on a"), done.stderr


def test_without_the_right_to_list_nodes_the_right_is_named(control_plane: ControlPlane, tmp_path: Path) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    done = tonnage("explain", "p", "--kubeconfig", viewer(control_plane, tmp_path, "asks", rules))
    assert (done.returncode, done.stdout) == (1, "")
    assert "may not list nodes; let this account list and watch them in a ClusterRole" in done.stderr
