"""Servers of a test: a certificate for them, and waiting until they listen."""

import asyncio
import subprocess
from pathlib import Path

from tests.waiting import PATIENCE


def certificate(folder: Path, name: str) -> None:
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    where = ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    subprocess.run([*command, *where], check=True, capture_output=True)


async def until_listening(port: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                return writer.close()
