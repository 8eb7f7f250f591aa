import itertools
import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from tonnage.report.pages.heatmap import Column, heat_map
from tonnage.report.pages.plot import Frame, PlotLine, line_plot, spread_out
from tonnage.report.pages.scale import number_axis

AXES = number_axis("x", 0, 10), number_axis("y", 0, 10)


def test_a_line_goes_through_its_points():
    frame = Frame(120, 120, left=10, right=10, top=10, bottom=10)
    drawn = ET.fromstring(line_plot("p", "said", [PlotLine("a", 0, [(0, 0), (5, 10), (10, 5)])], *AXES, frame))
    (line,) = [path for path in drawn.iter("path") if "line" in path.attrib.get("class", "")]
    assert line.attrib["d"] == "M10 110L60 10L110 60"


def test_names_are_escaped():
    name = "<script>\"&'"
    drawn = line_plot("p", name, [PlotLine(name, 0, [(0, 0), (1, 1)])], *AXES, Frame(300, 100, right=100))
    assert "<script>" not in drawn
    assert name in ET.fromstring(drawn).itertext()


def test_a_line_of_one_point_and_a_plot_without_lines_are_drawn():
    for lines in ([], [PlotLine("a", 0, [(1, 1)])]):
        ET.fromstring(line_plot("p", "said", lines, *AXES, Frame(300, 100, right=100)))


@given(st.lists(st.floats(0, 300), max_size=12))
def test_names_keep_their_order_and_do_not_overlap(rows: list[float]):
    placed = spread_out(rows, 15, 10, 390)
    assert all(10 <= row <= 390 for row in placed)
    pairs = sorted(zip(rows, placed, strict=True))
    heights = sorted(placed)
    assert [height for _, height in pairs] == heights or len(set(rows)) < len(rows)
    assert all(lower - upper >= 15 - 1e-6 for upper, lower in itertools.pairwise(heights))


def test_names_stay_where_there_is_room():
    assert spread_out([50, 100, 200], 15, 10, 390) == [50, 100, 200]


# -- maps


def cells(drawn: str) -> dict[str, int]:
    """How many cells each colour has, from the lengths of its strokes."""
    found = {}
    for path in ET.fromstring(drawn).iter("path"):
        found[path.attrib["class"]] = sum(int(run.split("h")[1]) // 6 for run in path.attrib["d"].split("M")[1:])
    return found


def test_every_cell_has_its_colour():
    columns = [Column([0.0, 0.3, 1.0], 1.0), Column([1.0, 1.0, 1.0], 0.0)]
    assert cells(heat_map("said", columns)) == {"heat-0": 2, "heat-2": 1, "heat-5": 5}


def test_many_columns_go_on_in_the_next_row():
    drawn = heat_map("said", [Column([1.0] * 8, 0.5)] * 549)
    assert cells(drawn) == {"heat-5": 549 * 8, "heat-3": 549}
    assert len(drawn) < 2000


def test_columns_may_be_of_different_length():
    assert cells(heat_map("said", [Column([1.0], 0.0), Column([1.0, 1.0], 0.0)])) == {"heat-5": 3, "heat-0": 2}
