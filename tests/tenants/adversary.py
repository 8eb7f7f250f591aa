"""The adversary: a process that draws operations from the grammar and sends them with nothing but its own token."""

import multiprocessing
import os
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from multiprocessing.synchronize import Event
from typing import Any, NamedTuple

from tests.tenants.grammar import Grammar, Operation
from tonnage.lab.api import Api, ApiError

AT_ONCE = 3
_NICE = 10
"""The adversary has a machine of its own in life; here it gives way to the parts whose times are taken."""
_GONE = 404


class Access(NamedTuple):
    """How a tenant reaches the API server."""

    server: str
    token: str
    authority: str


class Plan(NamedTuple):
    """What the adversary knows and is to do."""

    access: Access
    seed: int
    operations: int
    """At least so many; it goes on until it is told to stop."""
    scheduler: str
    nodes: list[str]
    queues: list[str]


class Tally(NamedTuple):
    """What came of the operations, by kind."""

    done: Counter[str]
    refused: Counter[str]
    seconds: float


class Adversary:
    """Runs beside the honest tenant."""

    def __init__(self, plan: Plan) -> None:
        # A process of its own: it does not slow down those whose times are taken.
        context = multiprocessing.get_context("spawn")
        self._enough, self._reached = context.Event(), context.Event()
        self._answer, there = context.Pipe(duplex=False)
        self._process = context.Process(target=_attack, args=(plan, self._enough, self._reached, there), daemon=True)
        self._process.start()

    @property
    def has_done_its_part(self) -> bool:
        assert self._process.is_alive(), "the adversary has ended"
        return self._reached.is_set()

    def stop(self) -> Tally:
        """Stop it; what it did."""
        self._enough.set()
        assert self._answer.poll(300), "the adversary does not end"
        tally: Tally = self._answer.recv()
        self._process.join(60)
        return tally

    def kill(self) -> None:
        if self._process.is_alive():
            self._process.kill()
            self._process.join(60)


def _attack(plan: Plan, enough: Event, reached: Event, answer: Any) -> None:
    os.nice(_NICE)
    started, guard = time.monotonic(), threading.Lock()
    grammar = Grammar(random.Random(plan.seed), plan.scheduler, plan.nodes, plan.queues)
    tally = Tally(Counter(), Counter(), 0.0)
    api = Api(*plan.access)

    def work() -> None:
        while not enough.is_set():
            with guard:
                operation = grammar.draw()
            failed = _send(api, operation)
            with guard:
                tally.done[operation.kind] += 1
                tally.refused[operation.kind] += bool(failed)
                _remember(grammar, operation, failed)
                if tally.done.total() >= plan.operations:
                    reached.set()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for one in [pool.submit(work) for _ in range(AT_ONCE)]:
            one.result()
    answer.send(tally._replace(seconds=time.monotonic() - started))


def _send(api: Api, operation: Operation) -> int:
    """The status with which it was refused; 0 if it was not."""
    try:
        api.request(
            operation.method, operation.path, operation.body, type_=operation.type, query=operation.query or None
        )
    except ApiError as error:
        return error.status
    except (OSError, HTTPException, ValueError):
        return -1
    return 0


def _remember(grammar: Grammar, operation: Operation, failed: int) -> None:
    if operation.kind.startswith("create pod"):
        if failed:
            grammar.gone(operation.body["metadata"]["name"])
    elif operation.kind in ("delete pod", "evict pod") and failed in (0, _GONE):
        name = operation.path.removesuffix("/eviction").rpartition("/")[2]
        if failed or name not in grammar.pods or not grammar.pods[name].is_kept:
            grammar.gone(name)
    elif failed == _GONE and operation.kind.startswith("patch pod"):
        grammar.gone(operation.path.rpartition("/")[2])
