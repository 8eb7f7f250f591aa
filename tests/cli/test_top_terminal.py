"""`tonnage top` on a terminal: tabs, keys, and the terminal afterwards."""

import re
import sys

import pytest

from tests.cli.terminal import ESCAPES, JOB, Terminal
from tests.paths import ROOT

TOP = [sys.executable, "-m", "tonnage.cli.main", "top"]
QUEUES = ["-f", str(ROOT / "examples" / "queues.yaml"), "--config", str(ROOT / "examples" / "queues-config.yaml")]


def test_keys_change_the_view_sort_filter_and_lead_to_an_explanation():
    terminal = Terminal(*QUEUES, command=TOP, width=80, height=24)
    terminal.read(until=r"5 waiting +wants[\s\S]+QueueOverLimit")
    terminal.press("2")
    terminal.read(until=r"1 nodes[\s\S]+node +cards +GPUs")
    terminal.press("3")
    terminal.read(until=r"4 GPUs[\s\S]+gpu-1/0")
    terminal.press("5")
    terminal.read(until=r"3 queues[\s\S]+research")
    terminal.press("4")
    terminal.read(until=r"5 pods[\s\S]+serving/chat-2")
    terminal.press("s")
    terminal.read(until="5 pods  by name")
    terminal.press("/chat-2\r")
    terminal.read(until=r"1 of 5 pods  by name, with “chat-2”")
    terminal.press("\r")
    terminal.read(until=r"serving/chat-2 waits[\s\S]+queue serving")
    terminal.press("q")
    assert terminal.end() == 0
    assert "\x1b[?1049l" in terminal.text
    assert "\x1b[?25h" in terminal.text.rpartition("\x1b[?25l")[2]
    assert "Traceback" not in terminal.text


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_the_terminal_is_as_it_was_afterwards(key):
    terminal = Terminal(*QUEUES, command=TOP, through=JOB)
    terminal.read(until="5 waiting")
    terminal.press(key)
    terminal.read(until="job ended with 0, terminal as before")
    assert terminal.end() == 0


def test_ctrl_z_gives_the_terminal_back_and_the_view_goes_on_after_it():
    terminal = Terminal(*QUEUES, command=TOP, through=JOB)
    terminal.read(until="5 waiting")
    terminal.press("\x1a")
    terminal.read(until="job stopped, terminal as before")
    terminal.read(until=r"job stopped[\s\S]+5 waiting")
    terminal.press("q")
    terminal.read(until="job ended with 0, terminal as before")
    assert terminal.end() == 0


def test_a_terminal_that_is_made_smaller_and_larger_is_filled_again():
    terminal = Terminal(*QUEUES, command=TOP, width=120, height=36)
    terminal.read(until="5 waiting")
    for width, height in ((20, 4), (1, 1)):
        terminal.resize(width, height)
        terminal.press("2")
        terminal.press("1")
    terminal.resize(120, 36)
    terminal.press("2")
    terminal.read(until=r"1 nodes[\s\S]+CPU free")
    terminal.press("q")
    assert terminal.end() == 0
    assert "Traceback" not in terminal.text


def test_without_colours_the_view_is_the_same_in_black_and_white():
    terminal = Terminal(*QUEUES, command=TOP, width=80, height=24, NO_COLOR="1")
    terminal.read(until="5 waiting")
    terminal.press("q")
    assert terminal.end() == 0
    assert not re.search(r"\x1b\[[0-9;]*\b(3[0-7]|9[0-7]|38)\b[0-9;]*m", terminal.text)


@pytest.mark.parametrize("arguments", [["--once"], ["pods", "--once"]])
def test_a_screen_reader_gets_plain_lines(arguments):
    terminal = Terminal(*arguments, *QUEUES, command=TOP)
    assert terminal.end() == 0
    assert "serving/chat-2" in terminal.text
    assert "\x1b[" not in terminal.text


def test_a_terminal_that_cannot_move_its_cursor_gets_lines():
    terminal = Terminal(*QUEUES, command=TOP, TERM="dumb")
    assert terminal.end() == 0
    assert "serving/chat-2 waits for 2 GPU" in ESCAPES.sub("", terminal.text)
    assert "\x1b[" not in terminal.text
