"""Configurations as people write them, and what loading one says."""

from textwrap import dedent

from tonnage.config.load import SchedulerConfig, load_text
from tonnage.config.notes import ConfigError

VOLCANO_BUILT_IN = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""

VOLCANO_HELM = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""

KAI_DEFAULT = """\
actions: allocate, consolidation, reclaim, preempt, stalegangeviction
tiers:
- plugins:
  - name: predicates
  - name: proportion
  - name: priority
  - name: elastic
  - name: kubeflow
  - name: ray
  - name: nodeavailability
  - name: gpusharingorder
  - name: gpupack
  - name: resourcetype
  - name: subgrouporder
  - name: taskorder
  - name: nominatednode
  - name: dynamicresources
  - name: nodeplacement
    arguments:
      cpu: binpack
      gpu: binpack
  - name: minruntime
  - name: topology
  - name: snapshot
  - name: sg-nodelocalgreedy
  - name: sg-multinodegang
queueDepthPerAction:
  consolidation: 10
  preempt: 20
"""

VOLCANO_CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: volcano-scheduler-configmap
  namespace: volcano-system
data:
  volcano-scheduler.conf: |
"""


def indented(text: str, by: int = 4) -> str:
    """The text as it stands in a block of something else."""
    return "".join(" " * by + line for line in text.splitlines(keepends=True))


def load(text: str) -> SchedulerConfig:
    """The configuration, written with whatever indentation the test has."""
    return load_text(dedent(text), "FILE")


def warnings(text: str) -> list[str]:
    return [note.shown("FILE") for note in load(text).warnings]


def errors(text: str) -> list[str]:
    """What is wrong with a configuration; nothing if it loads."""
    try:
        load(text)
    except ConfigError as error:
        return [note.shown("FILE") for note in error.errors]
    return []


def with_plugin(name: str, *lines: str) -> str:
    """A configuration with a plugin, whose further lines begin on line 5, column 5, and with priority."""
    below = "".join(f"    {line}\n" for line in lines)
    return f"actions: allocate\ntiers:\n- plugins:\n  - name: {name}\n{below}" + (
        "" if name == "priority" else "  - name: priority\n"
    )
