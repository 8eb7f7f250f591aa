"""`tonnage top` on a real API server: it follows the cluster, also through the server's absence."""

import sys

from tests.cli.terminal import Terminal
from tests.scenario import node, pod, running
from tonnage.lab.control_plane import ControlPlane

TOP = [sys.executable, "-m", "tonnage.cli.main", "top"]


def test_the_view_follows_the_cluster_and_says_since_when_it_is_old(fresh_control_plane: ControlPlane) -> None:
    plane = fresh_control_plane
    plane.api.create_nodes([node("a", gpus=2)])
    plane.api.create_pods([running("x", on="a", gpu=1, memory=100)])
    terminal = Terminal("pods", "--kubeconfig", str(plane.kubeconfig()), command=TOP, width=100, height=30)
    terminal.read(until=r"1 pods[\s\S]+default/x +running")
    plane.api.create_pods([pod("huge", 16)])
    terminal.read(until=r"2 pods[\s\S]+default/huge +waiting +16 GPU[^\n]+[A-Z]\w+")
    terminal.press("\r")
    terminal.read(until=r"default/huge waits[\s\S]+Of 1 nodes")
    terminal.press("\x1b")
    plane.api_server.stop()
    terminal.read(until=r"away: as of \d\d:\d\d:\d\d, \d+\S* ago")
    plane.start_server()
    plane.api.create_pods([pod("later", 1, memory=100)])
    terminal.read(until=r"3 pods[\s\S]+default/later")
    # Its first line is the usual one again.
    terminal.text = ""
    terminal.read(until=r"Tonnage  https://")
    terminal.press("q")
    assert terminal.end() == 0
    assert "Traceback" not in terminal.text
