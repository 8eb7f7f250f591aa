"""Frames of the view on a terminal, and between them keys."""

import sys
from contextlib import nullcontext

from rich.console import Console
from rich.live import Live

from tonnage.cli.terminal.controls import Controls
from tonnage.cli.terminal.keyboard import Keyboard, has_keyboard
from tonnage.cli.terminal.screen import render
from tonnage.cli.terminal.source import TerminalSource
from tonnage.cli.terminal.tabs import Tab


def can_draw() -> bool:
    """Whether standard output is a terminal that can move its cursor and show block characters."""
    if not sys.stdout.isatty():
        return False
    console = Console()
    return not console.is_dumb_terminal and console.encoding.lower().startswith("utf")


def show(source: TerminalSource, tab: Tab = Tab.CLUSTER) -> None:
    """Show the source until its end, a signal or the key q."""
    keyboard = Keyboard() if has_keyboard() else None
    controls = Controls(tab, has_keys=keyboard is not None)
    with keyboard.listening() if keyboard is not None else nullcontext():
        while not source.is_over:
            _frames(source, controls, keyboard)
            if keyboard is not None and keyboard.is_interrupted:
                keyboard.settle()


def _frames(source: TerminalSource, controls: Controls, keyboard: Keyboard | None) -> None:
    """Show frames until the end, or until the terminal may have changed hands."""
    console = Console(highlight=False, emoji=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while not (source.is_over or (keyboard is not None and keyboard.is_interrupted)):
            live.update(render(source, console.width, console.height, controls), refresh=True)
            source.wait(keyboard)
            for key in keyboard.keys() if keyboard is not None else ():
                controls.press(key, source)
