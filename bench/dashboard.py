"""`python -m bench.dashboard`: what the dashboard costs, in server CPU, in bytes and in the browser.

A cluster of 1,000 nodes × 8 with 5,000 pods changes all the time while ten pages are open. With a Chromium on the
machine, the first paint is timed there, and its memory is compared over `--minutes` of changes, by default two.
"""

import gzip
import random
import resource
import shutil
import sys
import threading
import time
from http.client import HTTPConnection
from typing import NamedTuple

from bench.report import Report, argument_parser, publish
from tests.dashboard.played import PlayedSource
from tests.dashboard.serving import served
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.dashboard.board import Board
from tonnage.dashboard.templating import script, style_sheet
from tonnage.devices.catalog import default_vendors
from tonnage.framework.decision import Decision
from tonnage.framework.session import Session
from tonnage.model.pod import Pod
from tonnage.model.wire import convert, manifest
from tonnage.simulator.objects import EPOCH
from tonnage.simulator.workloads.demo import demo_arrivals, demo_nodes

PAGES = 10
TEAMS = ("research", "speech", "vision", "search", "ads", "robotics", "batch", "interns")


class Sizes(NamedTuple):
    """How large the cluster is and how long it is looked at."""

    nodes: int
    pods: int
    churn: int
    """Pods that leave and come each second."""
    seconds: float
    churned: float
    """Seconds of changes over which the browser's memory is compared."""


FULL = Sizes(1000, 5000, 20, 20.0, 120.0)
QUICK = Sizes(20, 60, 2, 1.0, 3.0)
ROUNDS = 12
"""How often the browser's memory is taken; the first quarter lets it settle."""


class ChurningSource(PlayedSource):
    """A cluster in which pods come and go at a rate."""

    title = "Invented cluster"

    def __init__(self, nodes: int, pods: int, churn: int, seed: int = 1) -> None:
        super().__init__(Cluster(default_vendors()), EPOCH.timestamp())
        rng = self._rng = random.Random(seed)
        self._churn = churn
        for node in demo_nodes(nodes, 8, rng):
            self.cluster.upsert_node(node)
        self._session = Session(self.cluster, self.plugins)
        self._arrivals = demo_arrivals(nodes, 8, rng)
        self._decisions: dict[str, Decision] = {}
        while len(self.cluster.running) < pods and len(self.cluster.waiting) < pods // 20:
            self._arrive()

    def _arrive(self) -> None:
        arrival = next(self._arrivals)
        self.at = self.was_seen = EPOCH.timestamp() + arrival.time
        plain = manifest(arrival.pod)
        plain["metadata"].setdefault("labels", {})["kai.scheduler/queue"] = self._rng.choice(TEAMS)
        pod = convert(plain, Pod)
        self.cluster.upsert_pod(pod)
        decision = self._session.place(self.cluster.waiting[pod.key])
        if decision.node is None:
            self._decisions[pod.key] = decision
        else:
            self.placements[pod.key] = decision
            self.cluster.confirm(pod.key)

    def _leave(self, key: str) -> None:
        self.cluster.remove_pod(key)
        self._decisions.pop(key, None)
        self.placements.pop(key, None)

    def advance(self) -> None:
        for _ in range(self._churn):
            self._leave(self._rng.choice(list(self.cluster.running)))
            if len(self.cluster.waiting) > 100:
                self._leave(next(iter(self.cluster.waiting)))
            self._arrive()

    def decision_of(self, task: Task) -> Decision | None:
        return self._decisions.get(task.key)


def fetched(port: int, path: str) -> bytes:
    """A page as it comes over the wire, compressed."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
    body = connection.getresponse().read()
    connection.close()
    return body


def measure(report: Report, sizes: Sizes) -> None:
    """All figures."""
    source = ChurningSource(sizes.nodes, sizes.pods, sizes.churn)
    weight = sum(len(gzip.compress(text.encode(), 4)) for text in (style_sheet(), script()))
    report.at_most("style sheet and script, compressed", weight / 1024, "KB", 200)
    with served(Board(source)) as port:
        times = []
        for _ in range(5):
            started = time.process_time()
            page = fetched(port, "/")
            times.append(time.process_time() - started)
        report.add("cluster page with data, compressed", len(page) / 1024, "KB")
        report.add("cluster page, CPU of server and client", min(times) * 1000, "ms")
        _open_pages(report, sizes, port)
        if shutil.which("chromium"):
            _in_browser(report, sizes, port)


def _open_pages(report: Report, sizes: Sizes, port: int) -> None:
    """CPU per second with ten pages open, reading their streams in this process included."""
    html = gzip.decompress(fetched(port, "/")).decode()
    address = html.split('data-stream="')[1].split('"')[0].replace("&amp;", "&")
    connections = []
    for _ in range(PAGES):
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", address)
        connections.append((connection, connection.getresponse()))
    received = [0]
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            for _, answer in connections:
                received[0] += len(answer.readline())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    time.sleep(min(2.0, sizes.seconds / 5))
    begun, clock, before = time.process_time(), time.monotonic(), received[0]
    time.sleep(sizes.seconds)
    took = time.monotonic() - clock
    report.at_most(
        f"CPU per second with {PAGES} pages open, churn included",
        (time.process_time() - begun) / took * 1000,
        "ms",
        100,
    )
    report.add("stream per page and second", (received[0] - before) / took / PAGES / 1024, "KB")
    ended.set()
    reader.join(30)
    for connection, _ in connections:
        connection.close()
    report.add("memory of the process", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB")


def _in_browser(report: Report, sizes: Sizes, port: int) -> None:
    """First paint and memory in a real Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        paints = []
        for _ in range(3):
            page.goto(f"http://127.0.0.1:{port}/", wait_until="load")
            paint = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
            page.wait_for_function(paint)
            paints.append(float(page.evaluate(paint)))
        report.at_most("first paint of the cluster page in Chromium", min(paints), "ms", 1000)
        session = page.context.new_cdp_session(page)
        heaps, elements = [], []
        for _ in range(ROUNDS):
            page.wait_for_timeout(1000 * sizes.churned / ROUNDS)
            session.send("HeapProfiler.collectGarbage")
            heaps.append(session.send("Runtime.getHeapUsage")["usedSize"] / 2**20)
            elements.append(session.send("Memory.getDOMCounters")["nodes"])
        settled, minutes = ROUNDS // 4, f"{sizes.churned / 60:g} minutes"
        report.add(f"browser heap after {minutes} of churn", heaps[-1], "MB")
        report.at_most("browser heap, against after a quarter of that", heaps[-1] / heaps[settled - 1], "times", 1.2)
        report.at_most("elements, against after a quarter of that", elements[-1] / elements[settled - 1], "times", 1.2)
        browser.close()


def main() -> int:
    parser = argument_parser("bench.dashboard", __doc__)
    parser.add_argument("--minutes", type=float, help="how long the browser's memory is watched")
    arguments = parser.parse_args()
    sizes = QUICK if arguments.quick else FULL
    if arguments.minutes is not None:
        sizes = sizes._replace(churned=60 * arguments.minutes)
    return publish(arguments, lambda report: measure(report, sizes))


if __name__ == "__main__":
    sys.exit(main())
