"""Processes of this machine, by their ids."""

from pathlib import Path


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children(pid: int) -> list[int]:
    lists = [task / "children" for task in Path(f"/proc/{pid}/task").iterdir()]
    return sorted(int(child) for names in lists for child in names.read_text().split())
