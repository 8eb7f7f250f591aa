"""The parts of the docs that are made from the code: `make docs` writes them, and a test compares them.

A part stands in its page between `<!-- generated: NAME -->` and `<!-- end of NAME -->`.
"""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from tests.chart.values import default_value, described_values
from tests.cli.tree import commands
from tests.observability.rulefiles import alerts
from tests.paths import ROOT
from tonnage.api import Job, NodeView, Task
from tonnage.lab import parts

WRITERS = ("put", "finish", "drop", "move", "set_group", "recount", "supposing")
"""Methods that are the engine's to call."""
_LONGEST_DEFAULT = 60
COMMANDS, PLUGINS, OPERATE, VALUES, LOG = (
    ROOT / f"docs/{name}.md" for name in ("commands", "plugins", "operate", "chart-values", "log")
)
LEVELS = ("debug", "info", "warning", "error", "exception", "critical")


# -- commands and their flags


def commands_part() -> str:
    return "\n".join(line for name, command in commands() for line in _command(name, command))


def _command(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=name, terminal_width=1000)
    yield f"## {name}"
    yield ""
    yield f"`{' '.join([name, *command.collect_usage_pieces(context)])}`"
    yield ""
    yield _paragraphs(command.help or "")
    yield ""
    flags = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    if flags:
        yield "| flag | meaning |"
        yield "|---|---|"
        for option in flags:
            record = option.get_help_record(context)
            assert record is not None
            names, meaning = record
            assert option.help, f"{name} {names} has no help"
            yield f"| {_cell(f'`{names}`')} | {_cell(meaning)} |"
        yield ""
    if command.epilog:
        yield "```"
        yield command.epilog.replace("\b\n", "").strip()
        yield "```"
        yield ""


def _paragraphs(text: str) -> str:
    """Prose with its lines joined, paragraph by paragraph, at the width of the docs."""
    paragraphs = inspect.cleandoc(text).replace("\b", "").split("\n\n")
    options = {"break_long_words": False, "break_on_hyphens": False}
    return "\n\n".join(textwrap.fill(" ".join(one.split()), 120, **options) for one in paragraphs)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# -- what plugins may read


def _fields_part(kind: type) -> str:
    rows = [f"| `{name}` | {_cell(meaning)} |" for name, meaning in _members(kind).items()]
    return "\n".join(["| name | what it is |", "|---|---|", *rows])


def _members(kind: type) -> dict[str, str]:
    """The public attributes, properties and methods of a class with what their docstrings say."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    found = dict(_documented(definition.body))
    for part in definition.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            found |= _documented(part.body)
        elif isinstance(part, ast.FunctionDef) and not part.name.startswith("_") and part.name not in WRITERS:
            found[_called(part)] = " ".join((ast.get_docstring(part) or "").split())
    undocumented = [name for name, meaning in found.items() if not meaning]
    assert not undocumented, f"{kind.__name__} does not say what these are: {', '.join(undocumented)}"
    return found


def _documented(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Public attributes that are assigned or declared, with the docstring below each."""
    for part, after in zip(body, [*body[1:], None], strict=True):
        target = part.target if isinstance(part, ast.AnnAssign) else None
        if isinstance(part, ast.Assign):
            target = part.targets[0]
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if not name or name.startswith("_"):
            continue
        text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
        yield name, " ".join(str(text).split())


def _called(function: ast.FunctionDef) -> str:
    if any(isinstance(one, ast.Name) and one.id == "property" for one in function.decorator_list):
        return function.name
    names = [argument.arg for argument in function.args.args[1:]]
    names += [f"*{function.args.vararg.arg}"] if function.args.vararg else []
    names += [argument.arg for argument in function.args.kwonlyargs]
    return f"{function.name}({', '.join(names)})"


# -- versions of Kubernetes


def versions_part() -> str:
    rows = []
    for minor in parts.VERSIONS:
        wanted = parts.control_plane(minor)
        etcd = wanted._replace(named_by="go.etcd.io/etcd/server/v3").version
        rows.append(f"| {wanted.version.removeprefix('v')} | {etcd.removeprefix('v')} | {wanted.go} |")
    return "\n".join(["| Kubernetes | etcd | built with Go from |", "|---|---|---|", *rows])


# -- values of the chart


def values_part() -> str:
    rows = [f"| `{path}` | {_default(path)} | {_cell(_meaning(part))} |" for path, part in described_values()]
    return "\n".join(["| value | default | meaning |", "|---|---|---|", *rows])


def _meaning(part: dict[str, Any]) -> str:
    allowed = ", ".join(f"`{one}`" for one in part.get("enum", ()))
    return f"{part['description']} Allowed: {allowed}." if allowed else str(part["description"])


def _default(path: str) -> str:
    """The default of a value as it is written; long ones stand in the file."""
    text = json.dumps(default_value(path))
    return f"`{text}`".replace("|", "\\|") if len(text) <= _LONGEST_DEFAULT else "see values.yaml"


# -- alerts


def alerts_part() -> str:
    rows = [
        f"| [{name}](runbooks/{name}.md) | {rule['labels']['severity']} | {rule.get('for', 'at once')} "
        f"| {_cell(rule['annotations']['description'])} |"
        for name, rule in alerts().items()
    ]
    return "\n".join(["| alert | severity | after | says |", "|---|---|---|---|", *rows])


# -- the log


def log_part() -> str:
    """Every line that a module writes with a message of its own: calls of its logger with a text."""
    rows = []
    for file in sorted((ROOT / "src/tonnage").rglob("*.py")):
        module = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts)
        for call in (one for one in ast.walk(ast.parse(file.read_text())) if isinstance(one, ast.Call)):
            level = _level(call)
            text = call.args[0].value if level and isinstance(call.args[0], ast.Constant) else ""
            if level and text and text != "%s":
                shown = re.sub(r"%[sdr]", "…", str(text))
                rows.append((module, call.lineno, f"| `{module}` | {level} | {_cell(shown)} |"))
    lines = dict.fromkeys(row for _, _, row in sorted(rows))
    return "\n".join(["| logger | level | event |", "|---|---|---|", *lines])


def _level(call: ast.Call) -> str:
    """The level of a line that this call writes; nothing if it writes none."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in LEVELS or not call.args:
        return ""
    logger = function.value
    name = logger.attr if isinstance(logger, ast.Attribute) else getattr(logger, "id", "")
    return function.attr.replace("exception", "error") if name == "log" else ""


# -- pages

PARTS: dict[tuple[Path, str], Callable[[], str]] = {
    (COMMANDS, "commands"): commands_part,
    (OPERATE, "versions"): versions_part,
    (VALUES, "values"): values_part,
    (OPERATE, "alerts"): alerts_part,
    (LOG, "log"): log_part,
    (PLUGINS, "Task"): lambda: _fields_part(Task),
    (PLUGINS, "Job"): lambda: _fields_part(Job),
    (PLUGINS, "NodeView"): lambda: _fields_part(NodeView),
}


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- generated: {name} -->\n)(.*?)(<!-- end of {name} -->)", re.DOTALL)


def shown(page: Path, name: str) -> str:
    """What a page has as one of its parts."""
    found = _pattern(name).search(page.read_text())
    assert found, f"{page} has no part {name}"
    return found[2].strip()


def main() -> None:
    for (page, name), make in PARTS.items():
        shown(page, name)
        part = f"\n{make().strip()}\n\n"
        page.write_text(_pattern(name).sub(lambda found, part=part: found[1] + part + found[3], page.read_text()))


if __name__ == "__main__":
    main()
