"""The extender's application without a network, and bodies of requests that are valid but for what was done to them."""

import asyncio
import json
import logging
import random
from copy import deepcopy
from typing import Any

from tests.extender.pods import CORES, GPU, MEMORY, OURS, box
from tests.extender.pods import pod as json_pod
from tests.extender.recording import Api
from tests.extender.webhook.reviews import review
from tests.scenario import node, running, scenario
from tonnage.binder.handover import HandoverQueue
from tonnage.devices.catalog import default_vendors
from tonnage.extender.app import Extender
from tonnage.extender.binding import Binder
from tonnage.extender.metrics import ExtenderMetrics
from tonnage.extender.pending import PendingPods
from tonnage.extender.recorder import ExtenderRecorder
from tonnage.extender.requeue import Requeue
from tonnage.extender.reservations import Reservations
from tonnage.extender.service import without_kube_schedulers_own
from tonnage.extender.webhook.admission import AdmissionRules, PodAdmission
from tonnage.extender.webhook.review import answer, decide, read_review
from tonnage.framework.session import Session
from tonnage.observability.events import EventRecorder
from tonnage.plugins.defaults import default_plugins
from tonnage.server.health import Health

NODES = ["a", "b", "c"]
ENDPOINTS = ("/filter", "/prioritize", "/preempt", "/bind", "/webhook")


class _Pods(Api):
    """An API server that knows one waiting pod."""

    async def get(self, path, query=None, timeout=0):
        return json.dumps(fitting_pod()).encode()


class Server:
    """An extender whose clock goes on by a second with each request, and which remembers its own mistakes."""

    def __init__(self, decides: bool = True) -> None:
        self.loop = asyncio.new_event_loop()
        self.now = 0.0
        self.mistakes = _Mistakes()
        logging.getLogger("tonnage").addHandler(self.mistakes)
        self.cluster = scenario(
            node("a", gpus=2), node("b", gpus=1), node("c"), running("x", on="a", memory=6000), running("y", on="b")
        )
        plugins = without_kube_schedulers_own(default_plugins())
        session = Session(self.cluster, plugins)
        self.reservations = Reservations(session, plugins)
        self.handovers = HandoverQueue(self.clock)
        self.api = _Pods()
        self.binder = Binder(self.api, self.cluster, self.reservations, self.handovers, self.clock, self.clock, 0.001)
        metrics = ExtenderMetrics()
        self.events = EventRecorder(self.api, self.clock, OURS, metrics.event)
        admission = PodAdmission(default_vendors(), AdmissionRules(OURS), self.cluster.quotas)

        def judged(body: bytes) -> bytes:
            question = read_review(body)
            return answer(question, decide(question.request, admission.judge))

        synced = asyncio.Event()
        synced.set()
        recorder = ExtenderRecorder(metrics, self.events)
        self.requeue = Requeue(self.api, PendingPods(session, self.reservations, self.clock), self.clock, self.clock)
        self.extender = Extender(
            session,
            self.reservations,
            self.binder,
            synced,
            self.clock,
            recorder,
            judged,
            decides,
            self.requeue.filtered,
        )
        self.app = self.extender.app(Health(synced, {}))

    def clock(self) -> float:
        return self.now

    def close(self) -> None:
        logging.getLogger("tonnage").removeHandler(self.mistakes)
        self.loop.run_until_complete(self.binder.close())
        self.loop.close()

    def ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer; what goes on behind is done, and old places expire."""
        self.now += 1.0
        answered = self.loop.run_until_complete(self._ask(path, body))
        for key in [key for key in self.cluster.reserved if self.reservations.reservation(key, None) is None]:
            raise AssertionError(f"{key} is reserved, and nobody keeps it")
        self.reservations.expire(self.now)
        self.requeue.pending.to_requeue(self.now)
        return answered

    async def _ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        sent: list[dict[str, Any]] = []
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "method": "POST",
            "path": path,
            "client": ("127.0.0.1", 1),
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        self._watch()
        await asyncio.sleep(0)
        return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])

    def _watch(self) -> None:
        """Pods that were bound end at once, so that the next one finds room."""
        self.api.written.clear()
        for name in NODES:
            inside = self.handovers.holder(name)
            if inside is not None:
                self.cluster.remove_pod(inside)
                self.handovers.seen(inside, None, True)


class _Mistakes(logging.Handler):
    """Keeps what was logged with a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.texts.append(logging.Formatter().format(record))


# -- valid requests


def fitting_pod() -> dict[str, Any]:
    made = json_pod(
        box(limits={GPU: "1", MEMORY: "1000", CORES: "10"}),
        box(
            "side", {GPU: "1", MEMORY: "500"}, env=[{"name": "A", "value": "b"}], securityContext={"privileged": False}
        ),
        init=[box("first", {MEMORY: "100"}, restartPolicy="Always")],
        schedulerName=OURS,
        nodeSelector={"zone": "a"},
        tolerations=[{"key": "k", "operator": "Exists"}],
        priority=5,
    )
    made["metadata"] |= {
        "namespace": "default",
        "uid": "1",
        "labels": {"app": "x"},
        "annotations": {
            "nvidia.com/use-gputype": "A100",
            "nvidia.com/use-gpuuuid": "a/0,a/1",
            "hami.io/gpu-scheduler-policy": "binpack",
        },
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return made


def whole_node() -> dict[str, Any]:
    cards = [{"id": "z/0", "index": 0, "count": 10, "devmem": 8000, "devcore": 100, "type": "A100", "health": True}]
    notes = {"hami.io/node-nvidia-register": json.dumps(cards)}
    status = {"allocatable": {"cpu": "8", "nvidia.com/gpu": "10"}, "capacity": {"cpu": "8"}}
    return {"metadata": {"name": "z", "annotations": notes, "labels": {"zone": "a"}}, "status": status}


def valid(endpoint: str, whole: bool) -> Any:
    """A request that would be answered as kube-scheduler or the API server expects."""
    if endpoint == "/webhook":
        return json.loads(review(fitting_pod()))
    if endpoint == "/bind":
        return {"PodName": "p", "PodNamespace": "default", "PodUID": "1", "Node": "a"}
    if endpoint == "/preempt":
        by_node = {"a": {"Pods": [{"UID": "x"}], "NumPDBViolations": 0}}
        return {"Pod": fitting_pod(), "NodeNameToMetaVictims": by_node, "NodeNameToVictims": {"b": {"Pods": []}}}
    return {"Pod": fitting_pod()} | ({"Nodes": {"items": [whole_node()]}} if whole else {"NodeNames": list(NODES)})


# -- what is done to them

DEEP = json.loads("[" * 200 + "]" * 200)
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.0, 1e308),
    *("", " ", "0", "1", "-1", "1e9999", "1" * 400, "NaN", "Inf", "1Ki", "9999999999Ei", "٣", "\x00", "\ud7ff", "😀"),
    *("a", "b", "n/a", "../../etc", "a/0", "x" * 5000, "[", "{}", ";:,", "default/p", "CREATE", "2026-01-01T00:00:00Z"),
    *([], {}, [None], [[]], {"": None}, {"a": {"a": {}}}, ["a"] * 50, [{}] * 3, DEEP),
]
NAMES = [
    "",
    "a",
    "name",
    "uid",
    "nvidia.com/gpu",
    "nvidia.com/gpumem-percentage",
    "huawei.com/Ascend910B3",
    "cpu",
    "Pod",
]


def body(endpoint: str, rng: random.Random) -> bytes:
    """A request to which a few things were done, in its content or in its bytes."""
    document = valid(endpoint, rng.random() < 0.5)
    for _ in range(rng.randrange(5)):
        document = _changed(rng, document)
    text = json.dumps(document).encode()
    place = rng.randrange(len(text) + 1)
    match rng.choice(["", "", "", "", "cut", "insert", "deep", "raw"]):
        case "cut":
            return text[:place]
        case "insert":
            return text[:place] + rng.randbytes(rng.randrange(1, 7)) + text[place:]
        case "deep":
            word = rng.choice([b"[", b'{"a":', b'{"Pod":', b'{"request":{"object":'])
            return word * rng.choice([100, 5000, 100_000]) + text
        case "raw":
            return rng.randbytes(rng.randrange(60))
    return text


def _changed(rng: random.Random, document: Any) -> Any:
    """One place replaced, removed, doubled or given another name."""
    place = rng.choice(list(_places(document, ())))
    if not place:
        return deepcopy(rng.choice(ODD))
    parent = document
    for step in place[:-1]:
        parent = parent[step]
    last = place[-1]
    match rng.choice(["replace", "replace", "replace", "remove", "rename", "random"]):
        case "replace":
            parent[last] = deepcopy(rng.choice(ODD))
        case "random":
            parent[last] = rng.choice([rng.randrange(-(2**40), 2**40), rng.uniform(-1e9, 1e9), _text(rng)])
        case "remove":
            del parent[last]
        case _ if isinstance(parent, dict):
            parent[rng.choice([*NAMES, _text(rng)])] = parent.pop(last)
        case _:
            parent.append(parent[last])
    return document


def _text(rng: random.Random) -> str:
    return "".join(chr(rng.choice([rng.randrange(1, 128), rng.randrange(0xD800)])) for _ in range(rng.randrange(9)))


def _places(value: Any, path: tuple[Any, ...]) -> Any:
    """Every place in a document, but not deep ones in what was put there."""
    yield path
    if len(path) < 12:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, below in items:
            yield from _places(below, (*path, key))
