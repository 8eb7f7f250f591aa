"""Definitions of custom objects come and go on a real API server while the informer runs."""

import asyncio
import json
from typing import Any

from tests.cli.command import tonnage
from tests.kube.live import following, run, until_same
from tests.waiting import until_true
from tonnage.cluster.jobs.queue import DEFAULT_QUEUE
from tonnage.kube.client import connect
from tonnage.kube.kinds import BATCH_KINDS
from tonnage.lab import definitions
from tonnage.lab.api import Api
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.definitions import HYPERNODES, KAI_GROUPS, KAI_QUEUES, TOPOLOGIES, VOLCANO

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def create(api: Api, path: str, kind: str, name: str, namespace: str = "", **content: Any) -> None:
    """Create a custom object, in a namespace or in none."""
    version, _, plural = path.removeprefix("/apis/").rpartition("/")
    where = f"/apis/{version}/namespaces/{namespace}/{plural}" if namespace else path
    api.create(where, {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **content})


def create_some(api: Api) -> None:
    create(api, f"{VOLCANO}/queues", "Queue", "research", spec={"weight": 3})
    create(api, f"{VOLCANO}/podgroups", "PodGroup", "train", "default", spec={"minMember": 4, "queue": "research"})
    create(api, f"{KAI_QUEUES}/queues", "Queue", "team", spec={"resources": {"gpu": {"quota": 4}}})
    create(api, f"{KAI_GROUPS}/podgroups", "PodGroup", "tune", "default", spec={"minMember": 2, "queue": "team"})
    create(api, TOPOLOGIES, "Topology", "racks", spec={"levels": [{"nodeLabel": "rack"}]})
    create(api, HYPERNODES, "HyperNode", "s0", spec={"tier": 1})


def test_groups_and_queues_are_seen_once_they_are_installed_and_forgotten_with_it(control_plane: ControlPlane) -> None:
    api = control_plane.api

    async def main() -> None:
        client = await connect(str(control_plane.kubeconfig()))
        async with following(client, kinds=BATCH_KINDS) as informer:
            cluster = informer.cluster
            assert cluster.queues.keys() == {DEFAULT_QUEUE}
            assert {"default", "kube-system"} <= cluster.surroundings.namespaces.keys()
            assert not informer.trouble
            await asyncio.to_thread(definitions.install, api)
            await asyncio.to_thread(create_some, api)
            await until_true(lambda: cluster.queues.keys() == {DEFAULT_QUEUE, "research", "team"})
            await until_true(lambda: cluster.groups.groups.keys() == {"default/train", "default/tune"})
            await until_true(lambda: bool(cluster.topologies and cluster.hypernodes))
            api.patch(f"{VOLCANO}/queues/research/status", {"status": {"state": "Closed"}})
            await until_true(lambda: not cluster.queues["research"].is_open)
            await until_same(client, cluster, BATCH_KINDS)
            await asyncio.to_thread(
                definitions.remove, api, "queues.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh"
            )
            await until_true(lambda: cluster.queues.keys() == {DEFAULT_QUEUE, "team"})
            await until_true(lambda: cluster.groups.groups.keys() == {"default/tune"})
            await until_true(lambda: informer.reflectors["Queue.scheduling.volcano.sh"].is_missing)
            await asyncio.to_thread(definitions.install, api, "queues.scheduling.volcano.sh")
            create(api, f"{VOLCANO}/queues", "Queue", "again")
            await until_true(lambda: "again" in cluster.queues)
            await until_same(client, cluster, BATCH_KINDS)
            assert not informer.problems
        await client.close()

    run(main())
    done = tonnage("debug", "compare", "--seconds", "0", "--kubeconfig", control_plane.kubeconfig(), "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["differences"] == []


def test_the_real_server_says_what_may_not_be_listed_and_the_rest_goes_on(control_plane: ControlPlane) -> None:
    api = control_plane.api
    api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "half"}})
    rules = [{"apiGroups": [""], "resources": ["nodes", "pods", "resourcequotas"], "verbs": ["list", "watch"]}]
    api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "half"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "half", "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "half"}
    api.create(f"{RBAC}/clusterrolebindings", {"metadata": {"name": "half"}, "subjects": [subject], "roleRef": role})

    kubeconfig = control_plane.kubeconfig_of("default", "half")

    async def main() -> None:
        client = await connect(str(kubeconfig))
        async with following(client, kinds=BATCH_KINDS) as informer:
            assert informer.trouble["PriorityClass"].startswith(
                'may not list priorityclasses of API group "scheduling.k8s.io"; let this account list and watch them'
            )
            assert informer.trouble.keys().isdisjoint({"Node", "Pod", "ResourceQuota"})
        await client.close()

    run(main())
    done = tonnage("debug", "compare", "--seconds", "0", "--kubeconfig", kubeconfig)
    assert done.returncode == 0, done.stderr
    assert "cannot be followed: Namespace: may not list namespaces; let this account list and watch" in done.stdout
