"""Templates: where they lie, that everything in them is escaped, and what all of them can call."""

import re

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from tonnage.report.pages import palette, text


def environment(package: str) -> Environment:
    """Templates of a package, and those that all pages share."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("tonnage.report.pages")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(palette=palette, text=text)
    made.filters["breakable"] = breakable
    return made


def breakable(words: str) -> Markup:
    """Words whose long names may be broken where people would do it."""
    return Markup("<wbr>").join(escape(part) for part in re.split(r"(?<=[_/:=-])", words) if part)
