"""`tonnage up` on a terminal: the view, its keys, and the terminal afterwards."""

import re
import termios

import pytest

from tests.cli.terminal import ESCAPES, JOB, Terminal


def test_the_live_view_shows_bars_and_the_queue_and_ctrl_c_ends_it_with_the_summary():
    terminal = Terminal("--nodes", "4", "--gpus", "4", "--speed", "4000", "--duration", "30d")
    terminal.read(until=r"\d+ waiting +wants[\s\S]+CardInsufficientMemory")
    terminal.resize(70, 20)
    terminal.press("\x03")
    status = terminal.end()
    text = terminal.text
    assert status == 0
    assert "\x1b[?1049h" in text
    live, _, after = text.partition("\x1b[?1049l")
    assert "\x1b[?25h" in text.rpartition("\x1b[?25l")[2]
    seen = ESCAPES.sub("", live)
    assert re.search(r"h100-001  H100 80GB HBM3  [█▏▎▍▌▋▊▉· ]{12,} +\d+%", seen)
    assert re.search(r"[\d,]+ pods/s decided at [\d,]+× real time, [\d,]+ µs each", seen)
    assert "fragmentation" in seen
    assert "? help  q quit  space pause" in seen
    assert "of virtual time: 4 nodes x 4 GPUs" in after
    assert "Traceback" not in text


def test_keys_pause_change_the_speed_and_quit_with_the_summary():
    terminal = Terminal("--nodes", "2", "--gpus", "2", "--speed", "4000", "--duration", "300d")
    terminal.read(until=r"at 4,000× real time")
    before = termios.tcgetattr(terminal.master)
    assert not before[3] & (termios.ICANON | termios.ECHO)
    terminal.press("-")
    terminal.read(until=r"at 2,000× real time")
    terminal.press(" ")
    terminal.read(until=r"paused at 2,000× real time")
    terminal.press("+")
    terminal.read(until=r"paused at 4,000× real time")
    terminal.press("q")
    assert terminal.end() == 0
    assert "of virtual time: 2 nodes x 2 GPUs" in terminal.text.partition("\x1b[?1049l")[2]


def test_keys_sort_filter_and_show_a_pods_details():
    terminal = Terminal("--nodes", "4", "--gpus", "4", "--speed", "9000", "--duration", "300d", width=160, height=40)
    terminal.read(until=r"[1-9]\d* waiting +wants[\s\S]+pretrain")
    terminal.press(" ")
    terminal.read(until="paused at")
    terminal.press("s")
    terminal.read(until="by longest wait")
    terminal.press("/")
    terminal.read(until="enter keeps it, esc clears it")
    terminal.press("pretrain\r")
    terminal.read(until=r"\d+ of \d+ waiting[^\n]+with “pretrain”")
    terminal.press("\x1b[B")
    terminal.press("d")
    terminal.read(until=r"why it waits[\s\S]+\d nodes? +[A-Z]\w+: \S[\s\S]+esc goes back; ↑ and ↓ show others")
    terminal.press("?")
    terminal.read(until=r"ends the run with its summary[\s\S]+what the engine could do")
    terminal.press("q")
    assert terminal.end() == 0


def test_ctrl_z_gives_the_terminal_back_and_the_view_goes_on_after_it():
    terminal = Terminal("--nodes", "2", "--gpus", "2", "--duration", "300d", through=JOB)
    terminal.read(until="at 240× real time")
    terminal.press("\x1a")
    terminal.read(until="job stopped, terminal as before")
    terminal.read(until=r"job stopped[\s\S]+ 240× real time")
    terminal.press("q")
    terminal.read(until="job ended with 0, terminal as before")
    assert terminal.end() == 0
    stopped = terminal.text.partition("job stopped")
    assert stopped[0].count("\x1b[?1049h") == stopped[0].count("\x1b[?1049l")
    assert "Traceback" not in terminal.text


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_the_terminal_is_as_it_was_afterwards(key):
    terminal = Terminal("--nodes", "2", "--duration", "300d", through=JOB)
    terminal.read(until="at 240× real time")
    terminal.press(key)
    terminal.read(until="job ended with 0, terminal as before")
    assert terminal.end() == 0


def test_without_a_keyboard_there_are_no_keys():
    terminal = Terminal("--nodes", "2", "--duration", "300d", through=("/bin/sh", "-c", 'exec "$@" < /dev/null', "sh"))
    terminal.read(until="at 240× real time[\\s\\S]+Ctrl-C ends")
    assert "q quit" not in terminal.text
    terminal.press("\x03")
    assert terminal.end() == 0


def test_without_colours_the_live_view_is_the_same_in_black_and_white():
    terminal = Terminal("--nodes", "2", "--duration", "20m", "--speed", "2000", width=80, height=24, NO_COLOR="1")
    assert terminal.end() == 0
    assert "h100-001" in terminal.text
    assert not re.search(r"\x1b\[[0-9;]*\b(3[0-7]|9[0-7]|38)\b[0-9;]*m", terminal.text)


def test_a_terminal_that_cannot_move_its_cursor_gets_lines():
    terminal = Terminal("--nodes", "2", "--duration", "20m", "--speed", "0", TERM="dumb")
    assert terminal.end() == 0
    assert terminal.text.startswith("00:20:00  running")
    assert "\x1b[" not in terminal.text
