"""The question to a running scheduler or extender, over HTTP."""

from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

import click

from tonnage.cli.inputs import BadInput
from tonnage.explain.record import ExplainedKind, Explanation
from tonnage.model.excerpt import excerpt
from tonnage.model.wire import WireError, decode

_PATIENCE = 60.0
_LARGEST = 64 * 2**20
_UNKNOWN, _BAD = 404, 400


def ask(url: str, kind: ExplainedKind, name: str, namespace: str) -> Explanation:
    """The server's explanation."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise BadInput(f"--server {excerpt(url)!r} is no URL; give such as http://localhost:8080")
    path = f"{url.rstrip('/')}/explain/{kind}/{quote(name, safe='')}?namespace={quote(namespace, safe='')}"
    try:
        with urlopen(Request(path, headers={"Accept": "application/json"}), timeout=_PATIENCE) as answer:
            body = answer.read(_LARGEST)
    except HTTPError as error:
        told = excerpt(error.read(4096).decode(errors="replace"), 1000)
        if error.code in (_UNKNOWN, _BAD):
            raise BadInput(told or f"{url} knows no {kind} {name}") from error
        raise click.ClickException(f"{url} answers {error.code}: {told}") from error
    except (URLError, HTTPException, OSError) as error:
        raise click.ClickException(f"{url} does not answer: {getattr(error, 'reason', error)}") from error
    try:
        return decode(body, Explanation)
    except WireError as error:
        raise click.ClickException(f"{url} answers with something else than an explanation: {error}") from error
