"""Rules about time through the command line: the time is the machine's, or the one that is given."""

import json
import time
from typing import Any

import pytest

from tests.cli.command import tonnage
from tests.paths import ROOT
from tonnage.model.timestamp import timestamp

STALE = ROOT / "examples" / "stale-gang.yaml"
CONFIG = ROOT / "examples" / "stale-gang-config.yaml"
ARGUMENTS = ("schedule", "-f", STALE, "--config", CONFIG)


def document(*arguments: str) -> dict[str, Any]:
    done = tonnage(*ARGUMENTS, "-o", "json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_time_that_is_given_decides_whether_a_stale_gang_goes() -> None:
    found = document("--now", "2026-01-31T11:59:29Z")
    assert found["evictions"] == []
    message = "research/train runs with 1 of 2 pods"
    stale = {"job": "research/train", "since": "2026-01-31T11:57:30Z", "grace": 120.0, "message": message}
    assert found["stale"] == [stale]
    found = document("--now", "2026-01-31T13:00:00+01:00")
    reason = "StaleGang: research/train runs with 1 of 2 pods for 2m30s, and may for 2m"
    assert found["evictions"] == [
        {
            "pod": "research/train-0",
            "node": "gpu-1",
            "for": "research/train",
            "reason": reason,
            "action": "stalegangeviction",
        }
    ]
    assert found["stale"] == [stale]


def test_without_one_the_clock_of_the_machine_counts(tmp_path: Any) -> None:
    unmarked = tmp_path / "cluster.yaml"
    unmarked.write_text(STALE.read_text().replace("stale-podgroup-timestamp", "other"))
    before = int(time.time())
    done = tonnage("schedule", "-f", unmarked, "--config", CONFIG, "-o", "json")
    (stale,) = json.loads(done.stdout)["stale"]
    assert before <= timestamp(stale["since"]) <= time.time()
    assert len(document()["evictions"]) == 1


def test_the_table_says_which_gang_lacks_pods_and_what_was_evicted() -> None:
    early = tonnage(*ARGUMENTS, "--now", "2026-01-31T11:58:00Z").stdout
    assert early.startswith("research/train runs with 1 of 2 pods since 2026-01-31T11:57:30Z, and may for 2m\n\n")
    assert "EVICTED" not in early
    late = tonnage(*ARGUMENTS, "--now", "2026-01-31T12:00:00Z").stdout
    assert late.startswith("EVICTED ")
    assert "for 2m30s, and may for 2m" in late


@pytest.mark.parametrize("text", ["", "now", "12:00", "2026-02-30T00:00:00Z", "1769860800"])
def test_what_is_no_time_is_bad_usage(text: str) -> None:
    done = tonnage(*ARGUMENTS, "--now", text)
    assert done.returncode == 2
    assert "is no time; expected such as 2026-01-31T12:00:00Z" in done.stderr
