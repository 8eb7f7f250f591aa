"""The lines about waiting pods: what each wants, since when, and why it waits."""

import textwrap

from rich.text import Text

from tonnage.cli.terminal.controls import Controls
from tonnage.cli.terminal.drawing import ALERT, CHOSEN, NAME, QUIET, TITLE, fit, row_of
from tonnage.cli.terminal.itemtable import window
from tonnage.cli.terminal.source import TerminalSource, why
from tonnage.cli.terminal.tabs import WAITING
from tonnage.model.duration import format_seconds
from tonnage.overview.podwants import asks


def waiting_lines(source: TerminalSource, width: int, room: int, controls: Controls) -> list[Text]:
    """As many waiting pods as there is room for, the chosen one among them with its whole reason."""
    count = len(source.waiting())
    if room < 1:
        return []
    if not count:
        return [row_of(("nothing waits", TITLE), ("  every pod that arrived was placed", QUIET))]
    pods = controls.items(source)
    title = f"{count:,} waiting" if len(pods) == count else f"{len(pods):,} of {count:,} waiting"
    notes = controls.notes(WAITING)
    if not pods:
        return [row_of((title, TITLE), (f"  {', '.join(notes)}", QUIET))]
    place = next((number for number, pod in enumerate(pods) if pod.task.key == controls.chosen), 0)
    shown = [pods[row] for row in window(len(pods), room - 1 if len(pods) <= room - 1 else max(room - 2, 0), place)]
    names = [pod.task.key if width >= 100 else pod.task.pod.metadata.name for pod in shown]
    wishes = [asks(pod.task) for pod in shown]
    name = min(max(map(len, (title, *names))), 30)
    wants = min(max(map(len, ("wants", *wishes))), 26 if width >= 100 else 16)
    head = row_of((title.ljust(name), TITLE), "  ", ("wants".ljust(wants), TITLE))
    head.append("   since  why: nodes that said no, by reason", TITLE).append(f"  {', '.join(notes)}", QUIET)
    lines = [head]
    left = name + wants + 13
    for pod, pod_name, wish in zip(shown, names, wishes, strict=True):
        is_chosen = pod.task.key == controls.chosen
        said = why(source, pod.task)
        reason = said.partition(" nodes fit: ")[2] or said
        line = row_of((fit(pod_name, name), CHOSEN if is_chosen else NAME), "  ", fit(wish, wants), "  ")
        line.append(f"{format_seconds(source.now - pod.since):>6}  ", ALERT)
        if is_chosen and width - left >= 20:
            first, *rest = textwrap.wrap(reason, width - left) or [""]
            lines.append(line.append(first))
            lines += [Text(" " * left + more) for more in rest]
        else:
            lines.append(line.append(reason))
    hidden = len(pods) - len(shown)
    most = room - 1 if hidden and room > 1 else room
    lines = lines[:most]
    if hidden and room > 1:
        lines.append(row_of((f"… and {hidden:,} more", QUIET)))
    return lines
