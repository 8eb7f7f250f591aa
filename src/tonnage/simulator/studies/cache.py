"""Runs that were made before, in a folder: one file per run, named after everything that its result depends on."""

import os
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

import tonnage
from tonnage.model.wire import WireError, decode, encode
from tonnage.simulator.run import Run


class Cache:
    """A folder of runs; an entry that cannot be read is told about and counts as missing."""

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        self._folder = folder
        self._tell = tell
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: str) -> Run | None:
        """The run of a key, if it was kept."""
        path = self._path(key)
        try:
            return decode(path.read_bytes(), Run)
        except FileNotFoundError:
            return None
        except (OSError, WireError) as error:
            self._tell(f"{path}: a broken cache entry ({error}); it is computed again")
            return None

    def keep(self, key: str, run: Run) -> None:
        """Keep a run; a reader sees the whole file or none."""
        with NamedTemporaryFile(dir=self._folder, suffix=".part", delete=False) as file:
            file.write(encode(run))
        os.replace(file.name, self._path(key))

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def default_folder() -> Path:
    """Where runs are kept unless another folder is given."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tonnage" / "simulate"


@cache
def code_digest() -> str:
    """A name for the code that runs: what was computed by other code may differ."""
    digest = sha256()
    root = Path(tonnage.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
