"""The live view on a terminal: frames, and between them keys."""

from contextlib import nullcontext

from rich.console import Console
from rich.live import Live

from tonnage.cli.up.controls import Controls
from tonnage.cli.up.keyboard import Keyboard, has_keyboard
from tonnage.cli.up.liverun import FRAMES_PER_SECOND, LiveRun
from tonnage.cli.up.screen import Caption, render


def can_draw() -> bool:
    """Whether the terminal can move its cursor and show block characters."""
    console = Console()
    return not console.is_dumb_terminal and console.encoding.lower().startswith("utf")


def watch(run: LiveRun, duration: float, policy: str, seed: int) -> None:
    """Show the run until its end, a signal or the key q."""
    keyboard = Keyboard() if has_keyboard() else None
    controls = Controls(has_keys=keyboard is not None)
    if keyboard is not None:
        run.sleep = lambda seconds: run.wake() if keyboard.wait(seconds) else None
    is_done = False
    with keyboard.listening() if keyboard is not None else nullcontext():
        while not (is_done or run.stopped):
            is_done = _frames(run, duration, policy, seed, controls, keyboard)
            if keyboard is not None and keyboard.is_interrupted:
                keyboard.settle()


def _frames(
    run: LiveRun, duration: float, policy: str, seed: int, controls: Controls, keyboard: Keyboard | None
) -> bool:
    """Show frames until the end, or until the terminal may have changed hands; whether it is the end."""
    console = Console(highlight=False, emoji=False)
    is_done = False
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while not (is_done or run.stopped or (keyboard is not None and keyboard.is_interrupted)):
            caption = Caption(
                duration, run.speed, policy, seed, *run.pace(), run.replay.cards.count(), run.each, run.is_paused
            )
            live.update(render(run.replay, caption, console.width, console.height, controls), refresh=True)
            is_done = run.until(duration, run.clock() + 1 / FRAMES_PER_SECOND)
            for key in keyboard.keys() if keyboard is not None else ():
                controls.press(key, run)
    return is_done
