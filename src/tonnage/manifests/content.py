"""The content of a file: its bytes, its text, and lines and columns in it."""

import os

from tonnage.manifests.written import ManifestError, TextError

_ENDINGS = (".json", ".yaml", ".yml")


def file_content(path: str) -> bytes:
    """The bytes of a file; ManifestError with advice if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError as error:
        raise ManifestError(f"{path}: there is no such file; check the path, or give - for standard input") from error
    except IsADirectoryError as error:
        raise ManifestError(f"{path} is a folder; a file is needed here") from error
    except PermissionError as error:
        raise ManifestError(f"{path}: no permission to read it; check its owner and mode") from error
    except (OSError, ValueError) as error:
        raise ManifestError(f"{path}: cannot be read ({error}); check that it is a file") from error


def files_in(path: str, *, recursive: bool = False) -> list[str]:
    """The manifests in a folder in the order of their names, as kubectl takes them; ManifestError if there are none."""
    found = list[str]()
    try:
        for folder, folders, files in os.walk(path, onerror=_cannot_list):
            folders[:] = sorted(folders) if recursive else []
            found += [os.path.join(folder, name) for name in sorted(files) if name.endswith(_ENDINGS)]
    except OSError as error:
        raise ManifestError(f"{error.filename}: cannot be listed ({error.strerror}); check its mode") from error
    if not found:
        raise ManifestError(f"{path}: the folder has no files that end in {', '.join(_ENDINGS)}")
    return found


def _cannot_list(error: OSError) -> None:
    raise error


def as_utf8(data: bytes, source: str) -> bytes:
    """The content in UTF-8 without a byte order mark; older PowerShells write UTF-16."""
    if data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        return data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode("utf-16").encode()
    except UnicodeDecodeError as error:
        raise ManifestError(f"{source}: broken UTF-16; save it as UTF-8") from error


def as_text(data: bytes, source: str) -> str:
    """UTF-8 as text; TextError at the first byte that is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise TextError(source, *place(data, error.start), "not UTF-8 text; save it as UTF-8") from error


def place(data: bytes, offset: int) -> tuple[int, int]:
    """The line and column of a byte, both counted from 1."""
    start = data.rfind(b"\n", 0, offset) + 1
    return data.count(10, 0, offset) + 1, len(data[start:offset].decode(errors="replace")) + 1
