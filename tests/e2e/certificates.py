"""Certificates for servers of tests, made with openssl."""

import ssl
import subprocess
from pathlib import Path

from tests.paths import ROOT
from tests.server.listening import authority, certificate, signed


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, and its key."""
    certificate(folder, "127.0.0.1")
    return folder / "tls.crt", folder / "tls.key"


def documented(folder: Path) -> None:
    """The certificates of an installation, by the commands in docs/install.md."""
    text = (ROOT / "docs" / "install.md").read_text().replace("\\\n", "")
    for line in text.splitlines():
        if line.strip().startswith("openssl"):
            subprocess.run(line.strip(), shell=True, cwd=folder, check=True, capture_output=True)


def web_files(folder: Path) -> Path:
    """The webhook's certificate, with its CA beside it."""
    authority(folder / "web-ca")
    return signed(folder / "web", folder / "web-ca", "extender", "serverAuth")


def trusting(web: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(web / "ca.crt"))
    context.check_hostname = False
    return context
