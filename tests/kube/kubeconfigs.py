"""Kubeconfig files for tests."""

import json
from pathlib import Path
from typing import Any


def kubeconfig(path: Path, cluster: dict[str, Any], user: dict[str, Any], name: str = "here") -> str:
    """A file with one cluster, one user and one context."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    path.write_text(json.dumps(content))
    return str(path)


def program(path: Path, lines: str) -> str:
    """A program for sh."""
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o700)
    return str(path)


def printing(version: str, **status: str) -> str:
    """A line for sh that prints an ExecCredential."""
    credential = {"apiVersion": f"client.authentication.k8s.io/{version}", "kind": "ExecCredential", "status": status}
    return f"cat <<'END'\n{json.dumps(credential)}\nEND"
