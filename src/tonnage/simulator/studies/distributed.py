"""Runs of a study on a Dask cluster instead of local processes.

Tasks are pure: if a worker dies, Dask reruns its tasks elsewhere, with the same results.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from distributed import Client

Shared = TypeVar("Shared")
Argument = TypeVar("Argument")
Result = TypeVar("Result")

PATIENCE = 10.0
"""The timeout for the Dask scheduler to answer, in seconds."""


class DaskError(Exception):
    """The Dask cluster is unusable, or lost a task."""


def run_on_dask(
    address: str,
    function: Callable[[Shared, Argument], Result],
    shared: Shared,
    arguments: Sequence[Argument],
    done: Callable[[int, Result], None],
) -> list[Result]:
    """Apply a function to the shared value and each argument; `done` receives each result as it comes.

    The shared value is sent once and is the same object for all tasks of a worker. The function must be importable on
    the workers. Its exceptions are raised here, and the other tasks are cancelled.
    """
    with _connected(address) as client:
        from distributed import as_completed
        from distributed.scheduler import KilledWorker

        # As a task of its own, the shared value is recomputed if all workers that held it die. Tasks are impure to
        # Dask, so that it does not merge tasks with equal arguments.
        sent = client.submit(_itself, shared, pure=False)
        futures = [client.submit(function, sent, argument, pure=False) for argument in arguments]
        numbers = {future.key: number for number, future in enumerate(futures)}
        results: dict[int, Result] = {}
        try:
            for future in as_completed(futures):  # type: ignore[no-untyped-call]
                number = numbers[future.key]
                results[number] = future.result()
                done(number, results[number])
        except KilledWorker as error:
            raise DaskError(f"the Dask cluster at {address} lost several workers to one task: {error}") from error
        finally:
            client.cancel(futures)
    return [results[number] for number in range(len(arguments))]


def _itself(shared: Shared) -> Shared:
    return shared


def _connected(address: str) -> "Client":
    try:
        from distributed import Client
    except ImportError as error:
        raise DaskError("running on a Dask cluster needs Dask: pip install 'tonnage[dask]'") from error
    try:
        return Client(address, timeout=PATIENCE)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise DaskError(f"no Dask scheduler answers at {address}: {error}") from error
