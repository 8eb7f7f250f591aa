"""Images without a registry: one static program each, as an archive that `ctr images import` takes."""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

PAUSE = "localhost/pause:1"
WORKLOAD = "localhost/workload:1"
"""Prints its environment and mounts and waits; what practice pods run."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_image(program: Path, name: str, archive: Path) -> None:
    """Write an image whose only layer holds that program, in the form of `docker save`."""
    layer = _tar({"app": program.read_bytes()}, 0o755, folders=("tmp", "proc", "etc"))
    machine = platform.machine()
    config = _json(
        {
            "architecture": _ARCHITECTURES.get(machine, machine),
            "os": "linux",
            "config": {"Entrypoint": ["/app"], "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    )
    file = f"{hashlib.sha256(config).hexdigest()}.json"
    content = _json([{"Config": file, "RepoTags": [name], "Layers": ["layer.tar"]}])
    archive.write_bytes(_tar({file: config, "layer.tar": layer, "manifest.json": content}, 0o644))


def _json(content: object) -> bytes:
    return json.dumps(content).encode()


def _tar(files: dict[str, bytes], mode: int, folders: tuple[str, ...] = ()) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in folders:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777
            archive.addfile(folder)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()
