"""Templates of the dashboard: every value is escaped, every number has a unit."""

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tonnage.framework.reasons import known_reason
from tonnage.model.timestamp import rfc3339
from tonnage.report.pages import palette, text

MINE, PAGES = "tonnage.dashboard", "tonnage.report.pages"
_GIB = 1024.0


@cache
def templates() -> Environment:
    """The templates, compiled once."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(MINE), PackageLoader(PAGES)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(palette=palette, text=text, version_of=version_of, reason=known_reason)
    made.filters.update(
        memory=memory, gpus=gpus, percent=percent, cores=cores, when=when, cpus=cpus, ram=ram, clock=clock,
        sentence=sentence,
    )  # fmt: skip
    return made


def memory(mib: float) -> str:
    """Card memory for people."""
    return f"{text.number(mib / _GIB, 1)} GiB" if mib >= _GIB else f"{text.number(mib)} MiB"


def gpus(count: float) -> str:
    """A number of GPUs, or a part of one."""
    whole = abs(count - round(count)) < 0.05 or count >= 1000
    shown = text.number(count, 0 if whole else 1)
    return f"{shown} GPU" if shown == "1" else f"{shown} GPUs"


def percent(value: float) -> str:
    return text.percent(value)


def cores(value: float) -> str:
    """Compute of a card."""
    return text.percent(value, 0)


def cpus(millicores: float) -> str:
    shown = text.number(millicores / 1000, 0 if millicores % 1000 == 0 else 1)
    return f"{shown} CPU" if shown == "1" else f"{shown} CPUs"


def ram(size: float) -> str:
    return f"{text.number(size / 2**30, 0)} GiB"


def when(seconds: float | None) -> Markup:
    """A time, which scripts show as an age; without them it is the time of day, with the date if it matters."""
    if seconds is None:
        return Markup('<span class="quiet">unknown</span>')
    stamp = rfc3339(seconds)
    return Markup('<time datetime="{}" data-t="{}">{} UTC</time>').format(
        stamp, int(seconds), f"{stamp[5:10]} {stamp[11:19]}"
    )


def sentence(words: str) -> str:
    """Words that follow a name elsewhere, by themselves."""
    return words[:1].upper() + words[1:].rstrip(".") + "."


def clock(seconds: float) -> str:
    """A time of day."""
    return f"{rfc3339(seconds)[11:19]} UTC"


@cache
def style_sheet() -> str:
    """The style sheet, with the palette of all pages."""
    return templates().get_template("dashboard.css").render()


@cache
def script() -> str:
    """The script of all pages, with the one that reads plots."""
    parts = files(PAGES).joinpath("templates", "plots.js"), files(MINE).joinpath("static", "dashboard.js")
    return "".join([part.read_text(encoding="utf-8") for part in parts])


@cache
def version_of(name: str) -> str:
    """A part of a file's digest, so that browsers may keep it for ever."""
    content = style_sheet() if name.endswith(".css") else script()
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def rendered(template: str, /, **values: Any) -> str:
    """A whole page or a part of one."""
    return templates().get_template(template).render(**values)


def macro(template: str, name: str) -> Any:
    """A macro of a template, as a function that returns HTML."""
    return getattr(templates().get_template(template).module, name)
