"""Servers of a test: a certificate for them, and waiting until they listen."""

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which makes certificates, is not installed"
)


def certificate(folder: Path, name: str) -> None:
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    where = ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    subprocess.run([*command, *where], check=True, capture_output=True)


def authority(folder: Path) -> None:
    """A CA, by the command that the documentation gives."""
    folder.mkdir(exist_ok=True)
    _openssl(folder, "ca", "-days", "3650", "-subj", "/CN=tonnage-ca", "-addext", "keyUsage=critical,keyCertSign")


def signed(folder: Path, of: Path, name: str = "tonnage-peer", usage: str = "serverAuth,clientAuth") -> Path:
    """A certificate of the CA in a folder, by the command that the documentation gives; the folder that it is in."""
    folder.mkdir(exist_ok=True)
    limits = ("-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"extendedKeyUsage={usage}")
    names = ("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1")
    signer = ("-CA", str(of / "ca.crt"), "-CAkey", str(of / "ca.key"))
    _openssl(folder, "tls", *signer, "-days", "365", *names, *limits)
    if folder != of:
        shutil.copy(of / "ca.crt", folder / "ca.crt")
    return folder


def _openssl(folder: Path, name: str, *more: str) -> None:
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    where = ("-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt"))
    subprocess.run(["openssl", "req", "-x509", *key, *more, *where], check=True, capture_output=True)


async def until_listening(port: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                return writer.close()
