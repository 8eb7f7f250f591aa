"""Runs `tonnage` with a wall clock that is off by the number of seconds in a file, which may change at any time."""

import sys
import time
from pathlib import Path

_true_time = time.time


def main(file: Path, arguments: list[str]) -> None:
    def shifted() -> float:
        try:
            return _true_time() + float(file.read_text())
        except (OSError, ValueError):
            return _true_time()

    time.time = shifted
    sys.argv = ["tonnage", *arguments]
    from tonnage.cli.main import main as tonnage

    tonnage()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
