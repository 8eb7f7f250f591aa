"""The HTML page of a report: self-contained, without network access or further files."""

import os
import re
from contextlib import suppress
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from tonnage.report.curves import large_figures, small_figures
from tonnage.report.findings import findings
from tonnage.report.maps import cluster_maps, map_moment
from tonnage.report.measures import checkpoint_name, present
from tonnage.report.pages import palette, text
from tonnage.report.tables import failures_table, policies_table, times_table
from tonnage.simulator.studies.results import Results


class UnwritableReportError(Exception):
    """The report cannot be written to its path."""


def render(results: Results) -> str:
    """The page; the same results give the same text."""
    measures = present(results)
    return (
        templates()
        .get_template("simulation.html")
        .render(
            results=results,
            facts=_facts(results),
            findings=findings(results),
            moment=checkpoint_name(results),
            policies=policies_table(results, measures),
            large=large_figures(results, measures),
            small=small_figures(results, measures),
            maps=cluster_maps(results),
            map_moment=map_moment(results),
            failures=failures_table(results),
            waiting=times_table(results, "waiting_time"),
            completion=times_table(results, "completion_time"),
        )
    )


def templates() -> Environment:
    """The templates of the report and of its pages, which escape every value."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader("tonnage.report"), PackageLoader("tonnage.report.pages")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(palette=palette, text=text)
    made.filters["breakable"] = _breakable
    return made


def _breakable(words: str) -> Markup:
    """Words that a browser may break after the punctuation in long names."""
    return Markup("<wbr>").join(escape(part) for part in re.split(r"(?<=[_/:=-])", words) if part)


def _facts(results: Results) -> str:
    return " · ".join(
        (
            text.counted(len(results.policies), "policy").replace("policys", "policies"),
            text.counted(len(results.seeds), "seed"),
            f"{text.counted(results.nodes, 'node')} with {text.counted(results.gpus, 'GPU')}",
            text.counted(results.pods, "pod"),
        )
    )


def write_report(results: Results, path: Path) -> None:
    """Write the page of a simulation."""
    write_page(render(results), path)


def write_page(page: str, path: Path) -> None:
    """Write a page atomically."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(page, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise UnwritableReportError(f"the report cannot be written to {path}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            part.unlink()
