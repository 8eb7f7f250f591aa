"""Volcano's and KAI's schedulers: their configuration files are read as the batch scheduler's."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tonnage.config.load import load_text
from tonnage.config.notes import ConfigError
from tonnage.devices.catalog import default_vendors
from tonnage.migrate.peer import (
    CHART,
    UNINSTALL,
    Installation,
    PeerScheduler,
    ignored_flags,
    named,
    started,
    stopped,
    values_of,
)
from tonnage.migrate.peerobjects import PeerContainer, PeerDeployment, PeerObjects

_CONFIG, _NAME = "--scheduler-conf", "--scheduler-name"
_ONE_BY_ONE = "cycles start when something changes, not by the clock"
_ALL_NODES = "all nodes are looked at"
_CLIENT = "requests to the API server are not limited on this side"
_OF_PROCESS = "about the process; the chart sets what Tonnage needs"


class BatchPeer(NamedTuple):
    """What differs between the two."""

    name: str
    title: str
    programs: tuple[str, ...]
    """Names of its image."""
    scheduler: str
    """The scheduler name by default."""
    definitions: tuple[str, ...]
    """Kinds without which it schedules nothing."""
    flags: Mapping[str, str]
    """What becomes of its flags."""
    stays: str
    default_config: str

    def is_peer(self, container: PeerContainer) -> bool:
        """Whether a container is this scheduler, by its image."""
        return container.program in self.programs and (self.name != "kai" or "kai" in container.image)

    def examine(self, objects: PeerObjects) -> Installation:
        """What runs, or the defaults of it if it was not found."""
        running = objects.running(self.is_peer)
        if running is None:
            objects.problems.append(
                f"{self.title}'s scheduler was not found (a Deployment with an image {' or '.join(self.programs)}); "
                "its defaults are assumed. Give it with -f, or look at the cluster that has it"
            )
            return self._installation(objects, f"{self.title} with its defaults", (self.scheduler,), None, [])
        deployment, container = running
        names = tuple(values_of(container.words, _NAME)) or (self.scheduler,)
        flags = ignored_flags(container.words, self.flags, (_CONFIG, _NAME))
        found = named(deployment, container, self.title)
        return self._installation(objects, found, names, running, flags)

    def _installation(
        self,
        objects: PeerObjects,
        found: str,
        schedulers: tuple[str, ...],
        running: tuple[PeerDeployment, PeerContainer] | None,
        unsupported: list[str],
    ) -> Installation:
        for definition in objects.lacking(self.definitions):
            objects.problems.append(f"the definition {definition} is not installed; its objects are none")
        source, text = self._config(objects, running)
        try:
            config = load_text(text, source)
        except ConfigError as error:
            objects.problems.append(f"the configuration is not valid, {self.title}'s default is assumed: {error}")
            source, config = "the default", load_text(self.default_config, "the default")
        same = [
            f"pods keep schedulerName {', '.join(schedulers)}; {self.stays}",
            f"the configuration is read as it is: actions {', '.join(config.actions)} ({source})",
        ]
        told = [*unsupported, *(note.shown(source) for note in config.warnings)]
        deployment = running[0] if running else None
        profile = f"-f deploy/chart/profiles/{self.name}.yaml"
        where = f"{deployment.namespace}/{deployment.name}" if deployment else f"{self.title}'s scheduler"
        move = [
            f"# Put the configuration ({source}) under scheduler.config of values.yaml.",
            "# From here on new pods wait; running ones are not touched.",
            stopped(deployment) if deployment else f"# Scale the Deployment of {where} to 0.",
            f"{CHART} {profile} -f values.yaml --set scheduler.schedulerName={schedulers[0]}",
            "# Those that waited are placed now.",
        ]
        back = [UNINSTALL, started(deployment) if deployment else f"# Scale the Deployment of {where} up again."]
        return Installation(
            found,
            schedulers,
            default_vendors(),
            config.plugins,
            config.actions,
            same,
            [*unsupported, *told],
            move,
            back,
        )

    def _config(self, objects: PeerObjects, running: tuple[PeerDeployment, PeerContainer] | None) -> tuple[str, str]:
        paths: Sequence[str] = values_of(running[1].words, _CONFIG) if running else ()
        mounted = objects.mounted(running[0], paths[-1]) if running and paths else None
        return mounted or ("the default", self.default_config)


_VOLCANO_DEFAULT = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
_KAI_DEFAULT = """
actions: "allocate, consolidation, reclaim, preempt, stalegangeviction"
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
  - name: nodeplacement
    arguments: {cpu: binpack, gpu: binpack}
  - name: minruntime
  - name: topology
"""
_COMMON = {
    "--schedule-period": _ONE_BY_ONE,
    "--leader-elect": "replicas always agree by a Lease",
    "--logtostderr": _OF_PROCESS,
    "--enable-healthz": _OF_PROCESS,
    "--enable-metrics": _OF_PROCESS,
    "--kube-api-qps": _CLIENT,
    "--kube-api-burst": _CLIENT,
    "--qps": _CLIENT,
    "--burst": _CLIENT,
}
_VOLCANO = BatchPeer(
    name="volcano",
    title="Volcano",
    programs=("vc-scheduler", "volcano-scheduler"),
    scheduler="volcano",
    definitions=("podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh"),
    flags={
        **_COMMON,
        "--percentage-nodes-to-find": _ALL_NODES,
        "--minimum-percentage-nodes-to-find": _ALL_NODES,
        "--minimum-feasible-nodes": _ALL_NODES,
        "--node-selector": "all nodes of the cluster are used; keep others away with taints",
        "--node-worker-threads": _OF_PROCESS,
        "--resource-sync-timeout": _OF_PROCESS,
        "--cache-dumper": "`/debug/snapshot` takes its place",
        "--plugins-dir": "plugins of Go are not loaded; one of Python takes some lines (docs/plugins.md)",
        "--default-queue": "the queue is called default",
        "--priority-class": "priority classes always count",
        "--scheduler-sharding-mode": "one scheduler decides for all nodes",
    },
    stays="Volcano's controllers and webhooks stay: they make PodGroups and pods",
    default_config=_VOLCANO_DEFAULT,
)
_KAI = BatchPeer(
    name="kai",
    title="KAI",
    programs=("scheduler",),
    scheduler="kai-scheduler",
    definitions=("podgroups.scheduling.run.ai", "queues.scheduling.run.ai"),
    flags={
        **_COMMON,
        "--partition-label-key": "there are no node pools; pods choose nodes by label",
        "--partition-label-value": "there are no node pools; pods choose nodes by label",
        "--nodepool-label-key": "there are no node pools; pods choose nodes by label",
        "--max-consolidation-preemptees": "the search for moves has a limit of its own",
        "--use-scheduling-signatures": "pods that look alike are always decided once",
        "--detailed-fit-errors": "reasons are always kept, with numbers",
    },
    stays="KAI's pod grouper and admission stay: they make PodGroups",
    default_config=_KAI_DEFAULT,
)
VOLCANO = PeerScheduler(_VOLCANO.name, _VOLCANO.is_peer, _VOLCANO.examine)
KAI = PeerScheduler(_KAI.name, _KAI.is_peer, _KAI.examine)
