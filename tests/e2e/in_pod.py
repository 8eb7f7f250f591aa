"""Runs a program much as a pod does: in_pod.py [--token FOLDER] [--read-only] [--writable FOLDER]... NAME PROGRAM ...

The program has a host name of its own; with a folder, it finds what is in there where a service account's token is
mounted; and it may have a root file system that cannot be written, but for some folders.
"""

import argparse
import ctypes
import os
import shutil
import socket
import sys
from pathlib import Path

_NEW_MOUNTS, _NEW_UTS, _NEW_USER = 0x00020000, 0x04000000, 0x10000000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE, _RELATIME = 1, 1 << 5, 1 << 12, 1 << 14, 1 << 18, 1 << 21
_KEPT = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME
"""Flags of a mount that have the same number in both calls; who did not mount it must leave them as they are."""
_TOKENS = Path("/run/secrets/kubernetes.io/serviceaccount")
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--token", type=Path)
    parser.add_argument("--read-only", action="store_true")
    parser.add_argument("--writable", type=Path, action="append", default=[])
    parser.add_argument("name")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    mounts = _NEW_MOUNTS if given.token or given.read_only else 0
    user, group = os.geteuid(), os.getegid()
    _check(_libc.unshare(_NEW_UTS | mounts | (_NEW_USER if user else 0)), "no host name of one's own")
    if user:
        # Whoever is unknown in a namespace cannot create files there.
        for file, text in {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}.items():
            Path(f"/proc/self/{file}").write_text(text)
    socket.sethostname(given.name)
    if mounts:
        _mount("/", "", _RECURSIVE | _PRIVATE)
    if given.token:
        _mount("/run", "tmpfs", 0)
        shutil.copytree(given.token, _TOKENS)
    for folder in given.writable:
        _mount(str(folder), "", _BIND, str(folder))
    if given.read_only:
        now = os.statvfs("/").f_flag
        kept = now & _KEPT | (_RELATIME if now & os.ST_RELATIME else 0)
        _mount("/", "", _REMOUNT | _BIND | _READ_ONLY | kept)
    os.execv(given.command[0], given.command)


def _mount(place: str, kind: str, flags: int, source: str = "none") -> None:
    _check(
        _libc.mount(source.encode(), place.encode(), kind.encode(), ctypes.c_ulong(flags), None),
        f"cannot mount {place}",
    )


def _check(result: int, otherwise: str) -> None:
    if result:
        sys.exit(f"{otherwise}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
