"""Plugins with faults, which a server under test finds by the entry points of a folder on its path."""

import time
from pathlib import Path

from tonnage.api import NodeView, Plugin, Session, Task
from tonnage.config.finder import GROUP

RAISES, SLEEPS = "fault/raises", "fault/sleeps"
"""Labels of pods: about them the plugin raises, or sleeps for some seconds."""


class Faulty(Plugin):
    """Does to pods what their labels say."""

    name = "faulty"

    def on_session_open(self, session: Session) -> None:
        session.add_node_order(self.score)
        for task in session.cluster.waiting.values():
            time.sleep(float(task.pod.labels.get(SLEEPS, "0")))

    def score(self, task: Task, _node: NodeView) -> float:
        if RAISES in task.pod.labels:
            raise RuntimeError(f"at {task.key}")
        time.sleep(float(task.pod.labels.get(SLEEPS, "0")))
        return 0.0


def install(folder: Path) -> dict[str, str]:
    """Make an installed package of the plugins; the environment in which a server finds it."""
    made = folder / "faulty-1.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1\n")
    points = {"faulty": "tests.e2e.faultyplugin:Faulty", "poison": "tests.scheduler.poison:Poison"}
    lines = "\n".join(f"{name} = {place}" for name, place in points.items())
    (made / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}\n")
    return {"PYTHONPATH": str(folder)}
