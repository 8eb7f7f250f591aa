"""`tonnage agent` as a program that tells what it asks of the API server, and that can be slowed and failed.

The folder that $OBSERVED names gets a line per request in `requests` and lines with their times in `answers`: when a
preference was `wanted` and `preferred`, and when Allocate was `asked` and has `given` or `refused`. A file `slow` in it
has the seconds that every Allocate takes longer, a file `clock` the seconds by which the wall clock is off, and a file
`failures` what the next patches of pods are answered with instead of being sent: a status each line, or `lost`, for an
answer that never comes.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tonnage.agent.kubelet.messages import ContainerResponse, PreferenceQuestion
from tonnage.agent.service import AgentService
from tonnage.cli.main import main
from tonnage.kube.client import Client
from tonnage.kube.errors import StatusError

FOLDER = Path(os.environ["OBSERVED"])


def tell(file: str, line: str) -> None:
    with (FOLDER / file).open("a") as told:
        told.write(f"{line}\n")


def read(file: str) -> str:
    try:
        return (FOLDER / file).read_text()
    except FileNotFoundError:
        return ""


def next_failure() -> str:
    lines = read("failures").splitlines()
    if lines:
        (FOLDER / "failures").write_text("".join(f"{line}\n" for line in lines[1:]))
    return lines[0] if lines else ""


class ObservedClient(Client):
    async def _fetch(self, method: str, target: str, body: object, types: tuple[str, str], timeout: float) -> bytes:
        tell("requests", f"{method} {target}")
        failure = next_failure() if method == "PATCH" and "/pods/" in target else ""
        if failure == "lost":
            # Done, but the answer is lost.
            await super()._fetch(method, target, body, types, timeout)
            raise ConnectionResetError("lost on purpose")
        if failure:
            raise StatusError(int(failure), "Injected", "failed on purpose")
        return await super()._fetch(method, target, body, types, timeout)

    @asynccontextmanager
    async def stream(self, path: str, query: Any, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        tell("requests", f"WATCH {path}")
        async with super().stream(path, query, silence) as chunks:
            yield chunks


_allocate, _preference, _true_time = AgentService.allocate, AgentService.preference, time.time


def shifted() -> float:
    return _true_time() + float(read("clock") or 0)


async def preference(self: AgentService, question: PreferenceQuestion) -> tuple[str, ...]:
    tell("answers", f"{_true_time()} wanted {question.size}")
    answer = await _preference(self, question)
    tell("answers", f"{_true_time()} preferred {len(answer)}")
    return answer


async def allocate(self: AgentService, ids: tuple[str, ...]) -> ContainerResponse:
    tell("answers", f"{_true_time()} asked {len(ids)}")
    slow = read("slow")
    if slow:
        await asyncio.sleep(float(slow))
    try:
        answer = await _allocate(self, ids)
    except Exception as error:
        tell("answers", f"{_true_time()} refused {error}")
        raise
    tell("answers", f"{_true_time()} given {answer.envs.get('CUDA_DEVICE_MEMORY_LIMIT_0')}")
    return answer


if __name__ == "__main__":
    import tonnage.kube.client as client_module

    client_module.Client = ObservedClient  # type: ignore[misc]
    AgentService.allocate = allocate  # type: ignore[method-assign]
    AgentService.preference = preference  # type: ignore[method-assign]
    time.time = shifted
    main()
