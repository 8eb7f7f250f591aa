"""Certificates for servers of tests, made with openssl."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.paths import ROOT

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which makes certificates, is not installed"
)


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, and its key."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *files, *subject], check=True, capture_output=True)
    return certificate, key


def documented(folder: Path) -> None:
    """The certificates of an installation, by the commands in docs/extender.md."""
    text = (ROOT / "docs" / "extender.md").read_text().replace("\\\n", "")
    for line in text.splitlines():
        if line.strip().startswith("openssl"):
            subprocess.run(line.strip(), shell=True, cwd=folder, check=True, capture_output=True)
