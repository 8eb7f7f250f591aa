"""Credentials from a program that the kubeconfig file names, such as a cloud's (`client.authentication.k8s.io`).

This is the protocol in full: v1 and v1beta1, tokens and client certificates, when they expire, and what the program is
told about the cluster.
"""

import asyncio
import json
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec

from tonnage.kube.errors import AccessError
from tonnage.kube.kubeconfig import ClusterEntry, User, UserExec
from tonnage.model.timestamp import timestamp

GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
_SECONDS = 60.0
"""How long a program may take."""
_LONGEST_WORDS = 300


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _Status


async def fetch(program: UserExec, cluster: ClusterEntry) -> tuple[User, float | None]:
    """The credentials that a program gives, and until when they are valid, in seconds since 1970, if it says so."""
    if program.api_version not in _VERSIONS:
        known = " and ".join(_VERSIONS)
        raise AccessError(f"{program.command} is of the version {program.api_version}; known are {known}")
    if program.interactive_mode == "Always":
        raise AccessError(f"{program.command} must ask somebody (interactiveMode: Always), and nobody is there")
    output = await _run(program, _environment(program, cluster))
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
        said = answer.status
        until = timestamp(said.expiration_timestamp) if said.expiration_timestamp else None
    except ValueError as error:
        raise AccessError(f"{program.command} did not print an ExecCredential: {error}") from error
    if answer.api_version != program.api_version or answer.kind != "ExecCredential":
        raise AccessError(
            f"{program.command} printed {answer.kind} of {answer.api_version} instead of an ExecCredential of "
            f"{program.api_version}"
        )
    if bool(said.client_certificate_data) != bool(said.client_key_data) or not (said.token or said.client_key_data):
        raise AccessError(f"{program.command} gave neither a token nor a client certificate with its key")
    return User(
        token=said.token or None,
        client_certificate_data=_encoded(said.client_certificate_data),
        client_key_data=_encoded(said.client_key_data),
    ), until


def _encoded(text: str | None) -> str | None:
    return b64encode(text.encode()).decode() if text else None


def _environment(program: UserExec, cluster: ClusterEntry) -> dict[str, str]:
    spec: dict[str, Any] = {"interactive": False}
    if program.provide_cluster_info:
        spec["cluster"] = _described(cluster)
    told = {"apiVersion": program.api_version, "kind": "ExecCredential", "spec": spec}
    given = {variable.name: variable.value for variable in program.env or ()}
    return {**os.environ, **given, "KUBERNETES_EXEC_INFO": json.dumps(told)}


def _described(cluster: ClusterEntry) -> dict[str, Any]:
    authority = cluster.certificate_authority_data
    if cluster.certificate_authority and not authority:
        authority = b64encode(Path(cluster.certificate_authority).read_bytes()).decode()
    config = next((one.extension for one in cluster.extensions if one.name == f"{GROUP}/exec"), None)
    found = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify or None,
        "certificate-authority-data": authority,
        "proxy-url": cluster.proxy_url,
        "config": config,
    }
    return {name: value for name, value in found.items() if value is not None}


async def _run(program: UserExec, environment: dict[str, str]) -> bytes:
    """What the program prints."""
    pipe = asyncio.subprocess.PIPE
    command = [program.command, *(program.args or ())]
    try:
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
    except OSError as error:
        hint = f"; {program.install_hint.strip()}" if program.install_hint else ""
        raise AccessError(f"{program.command} cannot be run: {error.strerror}{hint}") from error
    try:
        async with asyncio.timeout(_SECONDS):
            output, errors = await process.communicate()
    except TimeoutError as error:
        raise AccessError(f"{program.command} has not ended after {_SECONDS:.0f} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = errors.decode(errors="replace").strip()[-_LONGEST_WORDS:]
        raise AccessError(f"{program.command} ended with status {process.returncode}: {said}")
    return output
