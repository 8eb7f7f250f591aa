"""The report of a simulation as a reader sees it."""

import itertools
import re
from typing import NamedTuple

import pytest

from tests.browser.conftest import Opener
from tests.report.sample import fill_results, replay_results
from tonnage.report.render import render
from tonnage.simulator.studies.results import Results

POLICIES, CHECKPOINTS = 6, 131


@pytest.fixture(scope="module")
def report() -> str:
    return render(fill_results())


@pytest.fixture(scope="module")
def wide_report() -> str:
    return render(fill_results(more=True))


def test_the_curves_are_there_with_all_their_points(opened: Opener, report: str):
    seen = opened(report)
    plots = seen.page.locator("svg.plot").all()
    assert seen.count("svg.plot") == 8
    for plot in plots:
        lines = [line.get_attribute("d") or "" for line in plot.locator(".line").all()]
        assert len(lines) == POLICIES
        boxes = [line.bounding_box() for line in plot.locator(".line").all()]
        assert all(box and box["width"] > 100 for box in boxes) == plot.is_visible()
        assert all(not re.search("[^MLH0-9 .-]", line) for line in lines)
    whole = seen.page.locator("[data-plot=small-gpu_allocated] .line").first.get_attribute("d") or ""
    assert len(whole.split("L")) == CHECKPOINTS


def test_every_gpu_is_on_the_map(opened: Opener, report: str):
    seen = opened(report)
    maps = seen.page.locator(".maps figure").all()
    assert len(maps) == POLICIES
    runs = "svg => [...svg.querySelectorAll('path')].reduce((sum, path) => sum + path.getTotalLength() / 6, 0)"
    cells = sum(drawing.evaluate(runs) for drawing in maps[0].locator("svg").all())
    assert round(cells) == 6212 + 1213


def test_a_policy_can_be_hidden_everywhere_and_shown_again(opened: Opener, report: str):
    seen = opened(report)
    before = seen.count(".line")
    assert before == 8 * POLICIES
    seen.page.get_by_role("checkbox", name="random").uncheck()
    assert seen.count(".line") == before - 8
    assert seen.count(".line.series-5") == seen.count(".name.series-5") == 0
    seen.page.get_by_role("checkbox", name="random").check()
    assert seen.count(".line") == before


def test_the_pointer_shows_the_values_below_it(opened: Opener, report: str):
    seen = opened(report)
    plot = seen.page.locator("[data-plot=large-gpu_allocated]")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box
    seen.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 100)
    tip = seen.page.locator(".tip:visible")
    words = tip.inner_text()
    assert words.split("\n")[0].endswith("%")
    assert all(name in words for name in ("upper bound", "fgd", "best-fit", "random"))
    seen.page.get_by_role("checkbox", name="random").uncheck()
    seen.page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 100)
    assert "random" not in tip.inner_text()
    seen.page.mouse.move(5, 5)
    assert tip.count() == 0


def test_the_keys_walk_along_a_plot(opened: Opener, report: str):
    seen = opened(report)
    seen.page.locator("[data-plot=small-pods_failed]").focus()
    seen.page.keyboard.press("ArrowLeft")
    tip = seen.page.locator(".tip:visible")
    assert tip.inner_text().startswith("130")
    seen.page.keyboard.press("ArrowLeft")
    assert tip.inner_text().startswith("129")
    seen.page.keyboard.press("Escape")
    assert tip.count() == 0


def test_light_and_dark_differ_and_can_be_chosen(opened: Opener, report: str):
    light, dark = opened(report, scheme="light"), opened(report, scheme="dark")
    for selector, name in (("html", "background-color"), ("html", "color"), (".line", "stroke"), (".heat-5", "stroke")):
        assert light.style(selector, name) != dark.style(selector, name)
    colours = {name: seen.style("html", "background-color") for name, seen in (("light", light), ("dark", dark))}
    light.page.get_by_role("radio", name="Dark").check()
    assert light.style("html", "background-color") == colours["dark"]
    dark.page.get_by_role("radio", name="Light").check()
    assert dark.style("html", "background-color") == colours["light"]
    dark.page.get_by_role("radio", name="Auto").check()
    assert dark.style("html", "background-color") == colours["dark"]


@pytest.mark.parametrize("width", [400, 900, 1400])
def test_the_page_is_never_wider_than_the_window(opened: Opener, wide_report: str, width: int):
    seen = opened(wide_report, width)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    for summary in seen.page.locator("summary").all():
        summary.click()
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [390, 700, 830])
def test_every_plot_is_whole_and_readable_on_a_narrow_screen(opened: Opener, wide_report: str, width: int):
    seen = opened(wide_report, width)
    plots = [plot for plot in seen.page.locator("svg.plot").all() if plot.is_visible()]
    assert len(plots) == 8
    for plot in plots:
        box = plot.bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert plot.evaluate("svg => svg.parentElement.scrollWidth <= svg.parentElement.clientWidth")
        letters = plot.locator(".axes text").first.bounding_box()
        assert letters
        assert letters["height"] > 10


def test_the_pointer_works_on_a_narrow_screen_too(opened: Opener, report: str):
    seen = opened(report, 390)
    plot = seen.page.locator("[data-plot=narrow-gpu_allocated]")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box
    seen.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 100)
    assert "best-fit" in seen.page.locator(".tip:visible").inner_text()


def test_names_of_lines_do_not_overlap_and_are_not_cut_off(opened: Opener, wide_report: str):
    seen = opened(wide_report)
    for plot in seen.page.locator(".wide figure").all():
        room = plot.locator(".scroll").first.bounding_box()
        boxes = [name.bounding_box() for name in plot.locator(".name text").all()]
        assert room
        assert len(boxes) >= 12
        rows = sorted((box["y"], box["y"] + box["height"]) for box in boxes if box)
        assert len(rows) == len(boxes)
        assert all(box["x"] + box["width"] <= room["x"] + room["width"] for box in boxes if box)
        # Boxes of letters have some air above and below, which may touch.
        assert all(after[0] - before[1] > -2.5 for before, after in itertools.pairwise(rows))


def test_words_tables_and_plots_need_no_scripts(opened: Opener, report: str):
    seen = opened(report, scripts=False)
    assert seen.page.locator(".lead").inner_text().startswith("fgd allocated the most")
    assert seen.count("section table") == 2
    assert seen.count(".line") == 8 * POLICIES
    seen.page.locator("summary").first.click()
    assert seen.page.locator("details table").first.is_visible()


def test_it_is_printed_on_white_and_fits_the_paper(opened: Opener, report: str):
    seen = opened(report, width=720, scheme="dark")
    seen.page.emulate_media(media="print", color_scheme="dark")
    assert seen.style("html", "background-color") == "rgb(255, 255, 255)"
    assert seen.count(".theme") == seen.count("details") == 0
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 720
    tables = seen.page.locator("table:visible").all()
    assert all((box := table.bounding_box()) and box["x"] + box["width"] <= 721 for table in tables)


class Printed(NamedTuple):
    """A heading in the outline of a PDF."""

    page: bytes
    height: float
    """Above the lower edge of the page, in points."""
    first: bytes | None
    """The first heading below it."""


def printed(pdf: bytes) -> dict[bytes, Printed]:
    found = {}
    for number, item in re.findall(rb"(\d+) 0 obj\s*<<(/Title.*?)endobj", pdf, re.DOTALL):
        place = re.search(rb"/Dest \[(\d+) 0 R /XYZ \S+ (\S+)", item)
        first = re.search(rb"/First (\d+)", item)
        if place:
            found[number] = Printed(place[1], float(place[2]), first[1] if first else None)
    return found


@pytest.mark.parametrize("size", ["A4", "Letter", "A5"])
@pytest.mark.parametrize("results", [fill_results(), replay_results()], ids=["fill", "replay"])
def test_no_heading_is_printed_alone_at_the_end_of_a_page(opened: Opener, results: Results, size: str):
    edge = {"top": "1cm", "right": "1cm", "bottom": "1cm", "left": "1cm"}
    found = printed(opened(render(results)).page.pdf(format=size, margin=edge, outline=True, tagged=True))
    sections = [(one, found[one.first]) for one in found.values() if one.first]
    assert len(sections) >= 2
    assert [one for one, first in sections if one.page != first.page] == []
    assert all(one.height > 72 for one in found.values()), "too little room for anything below the heading"


def test_a_replay_has_times_on_its_axis(opened: Opener):
    seen = opened(render(replay_results()))
    words = seen.page.locator("[data-plot=large-gpu_allocated]").text_content() or ""
    assert "24h" in words
    assert seen.count("svg.plot .line") == 3 * 2
    assert seen.page.locator(".maps rect title").first.text_content()
