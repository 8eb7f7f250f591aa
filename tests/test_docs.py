"""What the documentation says is so: reasons, vendors' names, links."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.command import tonnage
from tests.generated_docs import PARTS, shown
from tests.pages import DOCS, PAGES, named
from tests.paths import ROOT
from tests.reasons import reasons_in_code
from tonnage.devices.catalog import default_vendors
from tonnage.framework.reasons import PLUGIN_FAILED
from tonnage.observability.catalog import COUNTER, HISTOGRAM, METRICS

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
PART_OF = {
    "_scarcity": "resource-strategy-fit",
    **dict.fromkeys(("_hypernodesets", "networktopologyaware"), "network-topology-aware"),
    **dict.fromkeys(("_queueusage", "_waterfill", "_kaireclaim"), "proportion"),
    "_capacityqueues": "capacity",
    **dict.fromkeys(
        ("_hostports", "_interpodaffinity", "_topologyspread", "_claims", "_volumes", "_volumebinding", "_mignodes"),
        "predicates",
    ),
    "subjobs": "joballocator",
    "subjoballocator": "joballocator",
}
"""Modules that are not called as the plugin whose reasons they give."""


# -- reasons


def test_every_reason_is_on_the_page_with_its_plugin_and_no_other() -> None:
    code = reasons_in_code()
    assert {"noderesources", "nodeselection", "cardrules", "gpupolicy"} <= {module for module, _ in code}
    rows = [line for line in (DOCS / "reasons.md").read_text().splitlines() if line.startswith("| `")]
    shown = {line.split("`")[1] for line in rows}
    assert {name for _, name in code} | {PLUGIN_FAILED} == shown
    for module, name in code:
        if module != "cardrules":
            plugin = PART_OF.get(module, module)
            assert any(line.startswith(f"| `{name}` | `{plugin}` |") for line in rows), name


# -- metrics


def test_every_metric_is_on_the_page_with_its_type_and_labels_and_no_other() -> None:
    rows = [line for line in (DOCS / "metrics.md").read_text().splitlines() if line.startswith("| `tonnage_")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]
    shown = {
        name.strip("`"): (kind, tuple(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels, _ in (row for row in cells if len(row) == 4)
    }
    assert shown == {name: (spec.kind, spec.labels) for name, spec in METRICS.items()}


def test_names_of_metrics_follow_prometheus_habits() -> None:
    for name, spec in METRICS.items():
        assert re.fullmatch(r"tonnage(_[a-z]+)+", name), name
        assert name.endswith("_total") == (spec.kind == COUNTER), name
        assert spec.kind != HISTOGRAM or name.endswith("_seconds"), name
        assert spec.help.endswith("."), name


# -- vendors


def test_every_name_of_every_vendor_is_on_the_page() -> None:
    page = (DOCS / "devices.md").read_text()
    missing = []
    for vendor in default_vendors():
        names = [vendor.name, vendor.count_resource, *vendor.side_resources, vendor.allocated]
        names += [*vendor.register_annotations, *vendor.policy_annotations]
        names += [vendor.handshake_annotation] if vendor.handshake_annotation else []
        # Vendors that come one per chip share a table in which the chip's name is left open.
        missing += [n for n in names if f"`{n}`" not in page and f"`{n.replace(vendor.name, '<chip>')}`" not in page]
    assert missing == []


# -- links


def anchors(page: Path) -> set[str]:
    """The fragments by which a page's headings can be linked to."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(_FENCE.sub("", page.read_text())):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, fragment = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        if fragment and linked.suffix == ".md":
            assert fragment in anchors(linked), target


def test_every_page_under_docs_is_linked_from_another_page() -> None:
    tracked = {page for page in PAGES if page.is_relative_to(DOCS)}
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in PAGES
        for target in _LINK.findall(_FENCE.sub("", page.read_text()))
        if "://" not in target
    }
    assert {named(page) for page in tracked - linked} == set()


def test_the_table_of_extension_points_is_the_one_in_the_code():
    from tonnage.framework.points import points_table

    assert points_table() in (ROOT / "docs/plugins.md").read_text()


# -- generated parts


@pytest.mark.parametrize(("page", "part"), PARTS, ids=[f"{page.name}: {part}" for page, part in PARTS])
def test_generated_parts_are_as_the_code_makes_them(page: Path, part: str) -> None:
    assert shown(page, part) == PARTS[page, part]().strip(), "make docs writes it anew"


# -- the plugin on the page about plugins


def listing(language: str) -> str:
    """The first listing of a language on the page."""
    return (DOCS / "plugins.md").read_text().split(f"```{language}\n")[1].split("```")[0]


def test_the_plugin_shown_is_the_example() -> None:
    source = (ROOT / "examples/plugins/spot-instance-manager/spot_instance_manager.py").read_text()
    assert listing("python") in source


def test_the_plugin_shown_runs_as_it_stands(tmp_path: Path) -> None:
    plugin, config = tmp_path / "plugin.py", tmp_path / "scheduler.yaml"
    plugin.write_text(listing("python"))
    config.write_text(listing("yaml"))
    assert tonnage("check", config, "--plugin", plugin).stdout == f"{config}: valid\n"
    done = tonnage("schedule", "-f", "examples/cluster.yaml", "--plugin", plugin, "-o", "json")
    document = json.loads(done.stdout)
    scores = [decision["scores"][decision["node"]] for decision in document["decisions"] if decision["node"]]
    assert scores
    assert all(parts["spot-instance-manager"] == 1000.0 for parts in scores)
    assert [problem for problem in document["problems"] if problem["object"].startswith("Plugin/")] == []
