"""The cache of runs in a folder: one file per run, named by a hash of everything that the result depends on."""

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
    """A folder of runs; an unreadable entry is reported and counts as missing."""

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        self._folder = folder
        self._tell = tell
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: str) -> Run | None:
        """The cached run of a key."""
        path = self._path(key)
        try:
            return decode(path.read_bytes(), Run)
        except FileNotFoundError:
            return None
        except (OSError, WireError) as error:
            self._tell(f"{path}: a broken cache entry ({error}); it is computed again")
            return None

    def keep(self, key: str, run: Run) -> None:
        """Store a run atomically."""
        with NamedTemporaryFile(dir=self._folder, suffix=".part", delete=False) as file:
            file.write(encode(run))
        os.replace(file.name, self._path(key))

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def default_folder() -> Path:
    """The default folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tonnage" / "simulate"


@cache
def code_digest() -> str:
    """The hash of the running code, because other code may compute other results."""
    digest = sha256()
    root = Path(tonnage.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
