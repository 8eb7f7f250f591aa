"""Programs of the practice cluster: they say why they ended, and they never outlive who started them."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.processes import children, is_alive
from tests.paths import ROOT
from tests.waiting import PATIENCE, until
from tonnage.lab.program import LabError, Program, free_ports


def test_a_program_that_dies_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    program = Program(["/bin/sh", "-c", "echo cannot open the door; exit 7"], tmp_path / "log")
    with pytest.raises(LabError, match=r"sh ended with status 7; the end of its log (?s:.*)cannot open the door"):
        program.wait_until(lambda: False, "not ready", PATIENCE)


def test_a_program_that_is_never_ready_is_told_too(tmp_path: Path) -> None:
    program = Program(["/bin/sh", "-c", "echo still looking; sleep 60"], tmp_path / "log")
    try:
        with pytest.raises(LabError, match="sh: not ready after 0 s"):
            program.wait_until(lambda: False, "not ready", 0.3)
    finally:
        program.stop()
    assert not program.is_running


def test_a_program_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    started: list[Program] = []
    thread = threading.Thread(target=lambda: started.append(Program(["/bin/sleep", "60"], tmp_path / "log")))
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert started[0].is_running
    started[0].stop()


def test_stopping_twice_is_no_mistake(tmp_path: Path) -> None:
    program = Program(["/bin/sleep", "60"], tmp_path / "log")
    program.stop()
    program.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
def test_a_program_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    text = (
        "import sys, time; from pathlib import Path; from tonnage.lab.program import Program\n"
        "print(Program(['/bin/sleep', '60'], Path(sys.argv[1])).pid, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", text, str(tmp_path / "log")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout
        pid = int(starter.stdout.readline())
        assert is_alive(pid)
        os.kill(starter.pid, signal.SIGKILL)
    until(lambda: not is_alive(pid), "the program outlives the process that started it")


def test_free_ports_are_different_ones() -> None:
    assert len(set(free_ports(20))) == 20


class InterruptingLog(type(Path())):  # type: ignore[misc]
    """A path whose opener interrupts this process first."""

    def __fspath__(self) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return str(self)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT is a KeyboardInterrupt, whatever a test before has left."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_program_whose_start_is_interrupted_does_not_stay(tmp_path: Path) -> None:
    log, before = tmp_path / "log", children(os.getpid())
    with pytest.raises(KeyboardInterrupt):
        Program(["/bin/sleep", "60"], InterruptingLog(log))
    until(log.exists, "the start was given up")
    time.sleep(0.3)  # what was being started would be there
    assert children(os.getpid()) == before
