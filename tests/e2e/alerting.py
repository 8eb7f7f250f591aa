"""Scrapes of real servers as the series of `promtool test rules`, which evaluates the chart's alerts over them."""

import json
import subprocess
from pathlib import Path

from tests.extender.recording import parsed
from tests.observability.rulefiles import RULES
from tonnage.lab import parts

_BEFORE, _AFTER = 10, 180
"""Minutes for which the first state and the second one last."""
_GROWING = ("_total", "_count", "_sum", "_bucket")


class Target:
    """A process as Prometheus knows it, with what it exposed before and after something went wrong."""

    def __init__(self, job: str, before: str, after: str) -> None:
        self._labels = {"namespace": "tonnage", "job": job, "pod": f"{job}-0", "instance": f"{job}:80"}
        self._before, self._after = parsed(before), parsed(after)

    def series(self) -> list[dict[str, str]]:
        """A state lasts; what has been counted between the two is counted again each minute."""
        found = []
        for name in sorted({*self._before, *self._after}):
            if name.startswith("tonnage_"):
                old, new = self._before.get(name, {}), self._after.get(name, {})
                for labels in sorted({*old, *new}, key=sorted):
                    grows = name.endswith(_GROWING)
                    values = _values(old.get(labels), new.get(labels), grows)
                    found.append({"series": f"{name}{_braced({**self._labels, **dict(labels)})}", "values": values})
        return found


def _braced(labels: dict[str, str]) -> str:
    return "{" + ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(labels.items())) + "}"


def _values(old: float | None, new: float | None, grows: bool) -> str:
    first = "_" if old is None else f"{old!r}"
    if new is None:
        return f"{first}x{_BEFORE - 1} _x{_AFTER}"
    step = new - (old or 0.0) if grows else 0.0
    return f"{first}x{_BEFORE - 1} {new!r}{'-' if step < 0 else '+'}{abs(step)!r}x{_AFTER}"


def evaluate(folder: Path, expected: set[str], *targets: Target) -> None:
    """Fail unless exactly these alerts fire in the end."""
    end = _BEFORE + _AFTER - 5
    query = 'group by (alertname) (ALERTS{alertstate="firing"})'
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(expected)]
    test = {
        "interval": "1m",
        "input_series": [one for target in targets for one in target.series()],
        "promql_expr_test": [{"expr": query, "eval_time": f"{end}m", "exp_samples": samples}],
    }
    files = [str(file) for file in sorted(RULES.glob("*.yaml"))]
    document = {"rule_files": files, "evaluation_interval": "1m", "tests": [test]}
    file = folder / "test.json"
    file.write_text(json.dumps(document, indent=1))
    program = parts.find(parts.PROMTOOL) / "promtool"
    done = subprocess.run([program, "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
