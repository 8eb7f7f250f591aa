"""`tonnage lab` as a process: started as a user does, with words for tests."""

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.command import COMMAND
from tests.e2e.checker import findings
from tests.lab.processes import children, is_alive
from tests.paths import ROOT
from tests.waiting import PATIENCE, until
from tonnage.lab.api import Api, pods_path

Pods = dict[str, dict[str, Any]]


@contextmanager
def lab(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command while it runs; whatever happens, it does not stay."""
    command = [*COMMAND, "lab", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What the command prints with `-o json` once it runs."""
    assert process.stdout
    assert process.stderr
    text = ""
    while not text.endswith("}\n") or text.count("{") > text.count("}"):
        line = process.stdout.readline()
        assert line, text + process.stderr.read()
        text += line
    said: dict[str, Any] = json.loads(text)
    return said


class Lab:
    """A lab that runs, with words for tests."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.said = said
        config = json.loads(Path(said["kubeconfig"]).read_text())
        token, authority = (
            config["users"][0]["user"]["token"],
            config["clusters"][0]["cluster"]["certificate-authority"],
        )
        self.api = Api(said["server"], token, authority)

    def pods(self) -> Pods:
        return {one["metadata"]["name"]: one for one in self.api.get(pods_path())["items"]}

    def phases(self) -> Counter[str]:
        return Counter(one["status"]["phase"] for one in self.pods().values())

    def until_pods(self, holds: Callable[[Pods], object], otherwise: str) -> Pods:
        until(lambda: holds(self.pods()), otherwise, lambda: f"{self.phases()}\n{self.logs()}")
        return self.pods()

    def logs(self) -> str:
        return "\n".join(Path(log).read_text()[-2000:] for name, log in self.said["logs"].items() if "tonnage" in name)


@contextmanager
def running(*arguments: str) -> Iterator[Lab]:
    """A lab that was interrupted in the end and left nothing behind."""
    with lab(*arguments, "-o", "json") as process:
        said = told(process)
        programs = children(process.pid)
        assert len(programs) == len(said["logs"])
        found = Lab(said)
        yield found
        assert findings(found.api) == []
        found.api.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert not Path(said["kubeconfig"]).parent.exists()
    assert not any(is_alive(program) for program in programs)
