"""An API server that only takes notes, scrapes taken apart, and an application asked without a network."""

import asyncio
import gzip

from prometheus_client.parser import text_string_to_metric_families

from tonnage.observability.metrics import cluster_text


class Api:
    """Remembers what is written; answers with what is planned, then with success."""

    def __init__(self, *planned):
        self.planned = list(planned)
        self.written = []

    async def request(self, method, path, *, query=None, body=None, type_="", timeout=0):
        self.written.append((method, path, body))
        answer = self.planned.pop(0) if self.planned else None
        if isinstance(answer, Exception):
            raise answer
        return b"{}"


def scraped(cluster, legacy=False):
    """Samples by metric, each as its labels and value; fails for a series that comes twice."""
    return parsed("".join(cluster_text(cluster, legacy)))


def parsed(text):
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            series = found.setdefault(sample.name, {})
            labels = frozenset(sample.labels.items())
            assert labels not in series, f"{sample.name} has {sample.labels} twice"
            series[labels] = sample.value
    return found


def values(samples, *names):
    """Values by the labels of these names."""
    return {tuple(dict(labels)[name] for name in names): value for labels, value in samples.items()}


def described(registry, use):
    """Name, type and labels of every metric; `use` makes metrics with labels tell something."""
    own = {
        (family.name + ("_total" if family.type == "counter" else ""), family.type)
        for family in registry.collect()
        if family.name.startswith(("tonnage_", "hami_"))
    }
    use()
    labels = {name: set() for name, _ in own}
    for family in registry.collect():
        for sample in family.samples:
            name = next((n for n in (sample.name, sample.name.rpartition("_")[0]) if n in labels), None)
            if name is not None:
                labels[name] |= sample.labels.keys() - {"le"}
    return {(name, kind, frozenset(labels[name])) for name, kind in own}


async def ask(app, path="/metrics", packed=False):
    """Status, headers and body of a GET request."""
    sent = []
    headers = [(b"accept-encoding", b"gzip")] if packed else []
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": headers,
    }

    async def receive():
        # The client stays.
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], told, gzip.decompress(body) if packed else body
