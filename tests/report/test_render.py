"""The page as text: complete, escaped, small, the same every time, and written whole or not at all."""

import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.report.sample import fill_results, replay_results
from tonnage.report.curves import parting
from tonnage.report.measures import ALLOCATED
from tonnage.report.render import UnwritableReportError, render, write_report
from tonnage.simulator.studies.comparison import with_comparison
from tonnage.simulator.studies.results import ClusterFrame, NodeFrame, PolicyResult, Results, SeedSpread

HOSTILE = "</script><img src=x onerror=alert(1)>'\"&{{ 7*7 }}"
VOID = {"meta", "link", "input", "wbr", "br"}


class Page(HTMLParser):
    """Text, elements and what is left open."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def bare(**changed: object) -> Results:
    given: dict[str, object] = {
        "policies": {"a": PolicyResult({"100": SeedSpread(90.0)})},
        "mode": "fill",
        "workload": "w",
        "command": "c",
        "versions": {},
        "seeds": [1],
        "nodes": 1,
        "gpus": 8,
        "pods": 8,
    }
    return with_comparison(Results(**(given | changed)))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def page() -> str:
    return render(fill_results(more=True))


def test_every_element_is_closed_and_ids_are_unique(page: str):
    parsed = Page(page)
    assert parsed.open == []
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)


def test_everything_is_there(page: str):
    parsed = Page(page)
    results = fill_results(more=True)
    for words in (results.workload, results.command, "10,731 pods", "tonnage", "0.1.0", "42, 43", *results.policies):
        assert words in parsed.text
    headings = re.findall(r"<h2[^>]*>([^<]*)<", page)
    assert [heading.replace("\u202f", " ") for heading in headings] == [
        "Policies",
        "Over arrived demand",
        "The cluster at 100 % arrived demand",
        "Why pods failed",
        "To repeat this",
    ]
    assert len([svg for svg in parsed.named("svg") if svg.get("class") == "plot"]) == 8 + 2  # two of them twice
    assert "CardInsufficientMemory" in parsed.text


def test_twelve_policies_at_131_checkpoints_stay_small(page: str):
    assert len(page.encode()) < 600_000


def test_nothing_is_fetched(page: str):
    for tag, attributes in Page(page).elements:
        for name in ("src", "href", "srcset", "action", "data"):
            assert (attributes.get(name) or "data:,") == "data:,", (tag, attributes)
    assert "default-src 'none'" in page
    assert "@import" not in page
    assert re.findall(r"url\(([^)]*)\)", page) != []
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))
    assert "://" not in page


def test_every_table_has_a_caption_and_every_picture_a_description(page: str):
    parsed = Page(page)
    assert len(parsed.named("table")) == len(parsed.named("caption"))
    pictures = [svg for svg in parsed.named("svg") if svg.get("role") == "img"]
    assert len(pictures) > 12
    assert all(svg["aria-label"] for svg in pictures)
    assert all("aria-hidden" in svg for svg in parsed.named("svg") if svg.get("role") != "img")
    assert all(cell.get("scope") in ("row", "col") for cell in parsed.named("th"))


def test_whatever_a_name_holds_is_shown_and_never_obeyed():
    policy = PolicyResult(
        {"50": SeedSpread(40.0), "100": SeedSpread(90.0)},
        failures={HOSTILE: SeedSpread(3.0)},
        waiting_time={HOSTILE: SeedSpread(3.0)},
        picture=ClusterFrame("100", [NodeFrame(HOSTILE, HOSTILE, [0.5], 0.5)]),
    )
    versions = {HOSTILE: HOSTILE}
    page = render(bare(policies={HOSTILE: policy}, workload=HOSTILE, command=HOSTILE, versions=versions))
    parsed = Page(page)
    assert parsed.open == []
    assert parsed.named("img") == []
    assert len(parsed.named("script")) == 2
    assert parsed.text.count(HOSTILE) >= 8
    assert all("onerror" not in attributes for _, attributes in parsed.elements)


def test_the_same_results_give_the_same_page(page: str):
    assert render(fill_results(more=True)) == page


@pytest.mark.parametrize(
    "results",
    [
        bare(),
        bare(policies={}),
        bare(policies={"a": PolicyResult({})}),
        bare(mode="replay", policies={"a": PolicyResult({"0": SeedSpread(0.0)})}),
        bare(policies={"a": PolicyResult({"100": SeedSpread(90.0)}), "b": PolicyResult({"50": SeedSpread(50.0)})}),
        bare(
            gpus=0,
            policies={
                "a": PolicyResult({"0": SeedSpread(0.0), "100": SeedSpread(0.0)}, picture=ClusterFrame("100", []))
            },
        ),
        bare(policies={"a": PolicyResult({"0": SeedSpread(0.0)}, picture=ClusterFrame("0", [NodeFrame("n", "", [])]))}),
        bare(bound={"100": 95.0}),
        replay_results(),
    ],
)
def test_little_is_enough(results: Results):
    assert Page(render(results)).open == []


def test_the_large_plot_begins_where_policies_part():
    assert 80 < parting(fill_results(), ALLOCATED) < 95


def test_nodes_of_small_clusters_are_named():
    assert "openb-node-0000: " in render(replay_results())


# -- writing


def test_the_report_is_a_file(tmp_path: Path):
    write_report(bare(), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == render(bare())
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_an_older_report_is_replaced(tmp_path: Path):
    (tmp_path / "report.html").write_text("old")
    write_report(bare(), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == render(bare())


@pytest.mark.parametrize("folder", ["missing", "file"])
def test_a_folder_that_is_none_is_an_error(tmp_path: Path, folder: str):
    (tmp_path / "file").touch()
    with pytest.raises(UnwritableReportError, match=r"the report cannot be written to .*report\.html: "):
        write_report(bare(), tmp_path / folder / "report.html")


def test_a_disk_that_fills_up_leaves_the_older_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "report.html").write_text("old")

    def full(self: Path, text: str, encoding: str) -> int:
        with self.open("w", encoding=encoding) as file:
            file.write(text[:100])
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(UnwritableReportError, match="No space left on device"):
        write_report(bare(), tmp_path / "report.html")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "old"
