"""An API server that answers binds as the test says, and an extender that binds."""

import asyncio

from tests.extender import recording
from tests.extender.asking import asked, named, reservations
from tests.scenario import node, scenario
from tonnage.binder.handover import HandoverQueue
from tonnage.extender.binding import Binder
from tonnage.extender.protocol import BindArgs
from tonnage.kube.errors import StatusError


class Api(recording.Api):
    """The same, with pods that can be read."""

    def __init__(self, *planned, pods=()):
        super().__init__(*planned)
        self.pods = dict(pods)

    async def get(self, path, query=None, timeout=0):
        found = self.pods.get(path.rpartition("/")[2])
        if found is None:
            raise StatusError(404, "NotFound", "no such pod")
        return found


class World:
    """A cluster, the extender's decisions on it, and a bind of the pod `p` to the node `a`."""

    def __init__(self, *objects, api=None, wanted=None, is_shown=True, scheduler_name=""):
        self.cluster = scenario(node("a", gpus=1), *objects)
        self.server = reservations(self.cluster, scheduler_name=scheduler_name)
        self.api = api or Api()
        self.now = 1_700_000_000.0
        self.handovers = HandoverQueue(lambda: self.now)
        self.wanted = wanted or named("p", gpus=1, memory=1000)
        if is_shown:
            # By the watch.
            self.cluster.upsert_pod(self.wanted)

    def filter(self):
        assert self.server.filter(asked(self.wanted, "a"), self.now).result.node_names == ["a"]
        return self

    def bind(self, **changed):
        async def main():
            binder = Binder(self.api, self.cluster, self.server, self.handovers, lambda: self.now, lambda: self.now)
            args = {"name": "p", "namespace": "default", "uid": "1", "node": "a"} | changed
            try:
                return await binder.bind(BindArgs(**args))
            finally:
                self.state = self.server.reservation("default/p", "1")
                self.kept = None if self.state is None else self.state.state
                await binder.close()

        return asyncio.run(main())

    def bindings(self):
        return [body for method, path, body in self.api.written if path.endswith("/binding")]
