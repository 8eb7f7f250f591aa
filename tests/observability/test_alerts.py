"""The alerts and dashboards of the chart speak of metrics that exist, and every alert has a runbook."""

import re
import subprocess

import pytest

from tests.agent.monitor.metering import of_the_agent
from tests.extender.metering import of_the_extender
from tests.observability.rulefiles import RULES, alerts, dashboards, queries, unknown
from tests.paths import ROOT
from tests.scheduler.metering import of_the_batch_scheduler
from tonnage.lab import parts

RUNBOOKS = ROOT / "docs/runbooks"


@pytest.fixture(scope="module")
def metrics() -> dict[str, frozenset[str]]:
    """The labels of every metric that a process of ours has."""
    found: dict[str, frozenset[str]] = {}
    for name, _, labels in of_the_extender() | of_the_batch_scheduler() | of_the_agent():
        found[name] = found.get(name, frozenset()) | labels
    return found


def test_alerts_refer_to_metrics_and_labels_that_exist(metrics: dict[str, frozenset[str]]) -> None:
    assert {name: wrong for name, rule in alerts().items() if (wrong := unknown(rule["expr"], metrics))} == {}


def test_dashboards_refer_to_metrics_and_labels_that_exist(metrics: dict[str, frozenset[str]]) -> None:
    found = dashboards()
    assert len(found) == 4
    for file, dashboard in found.items():
        asked = list(queries(dashboard))
        assert len(asked) > 8
        assert {query: wrong for query in asked if (wrong := unknown(query, metrics))} == {}, file.name


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("tonnage_leadr == 1", ["tonnage_leadr"]),
        ('tonnage_pods{stat="x"}', ["tonnage_pods{stat}"]),
        ("sum by (queue, job) (tonnage_pods)", ["queue"]),
        ('histogram_quantile(0.9, sum by (verb, le) (rate(tonnage_request_duration_seconds_bucket{job="x"}[5m])))', []),
    ],
)
def test_what_does_not_exist_is_found(expression: str, wrong: list[str], metrics: dict[str, frozenset[str]]) -> None:
    assert unknown(expression, metrics) == wrong


def test_alerts_have_a_severity_a_summary_and_a_runbook_and_runbooks_have_an_alert() -> None:
    for name, rule in alerts().items():
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), name
        assert rule["annotations"].keys() == {"summary", "description", "runbook"}, name
        assert rule["annotations"]["runbook"] == f"docs/runbooks/{name}.md"
        page = (RUNBOOKS / f"{name}.md").read_text()
        assert page.startswith(f"# {name}\n"), name
        assert "\n## Look\n" in page, name
        assert "\n## Do\n" in page, name
        shown = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        kept = re.search(r"^\s*(?:\(\s*)?(?:sum|max) by \(([^)]*)\)", rule["expr"])
        assert not kept or shown <= {label.strip() for label in kept[1].split(",")}, f"{name} shows a label it drops"
    assert {file.stem for file in RUNBOOKS.glob("*.md")} == alerts().keys()


@pytest.mark.promtool
def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    files = sorted(RULES.glob("*.yaml"))
    program = parts.find(parts.PROMTOOL) / "promtool"
    done = subprocess.run(
        [program, "check", "rules", "--lint=all", *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("SUCCESS") == len(files)
