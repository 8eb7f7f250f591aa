"""`make audit` asks a service about each package of the lock; what it cannot ask is a failure with a sentence."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from release.lock import LOCK, parsed
from tests.paths import ROOT
from tonnage.lab.program import free_ports

BAD = "jinja2"
ADVISORY = {
    "id": "PYSEC-2026-1",
    "details": "Templates do what they should not.",
    "affected": [
        {
            "package": {"name": BAD, "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.1"}]}],
        }
    ],
}


@contextmanager
def advisories(known: dict[str, object]) -> Iterator[tuple[str, list[str]]]:
    """A service of OSV's kind that knows these, by package; its address, and the packages that were asked about."""
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(question["package"]["name"])
            vulnerabilities = [known[asked[-1]]] if asked[-1] in known else []
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"vulns": vulnerabilities} if vulnerabilities else {}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query", asked
        server.shutdown()


def audit(url: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "release.audit", "--osv-url", url]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_package_is_asked_about() -> None:
    with advisories({}) as (url, asked):
        done = audit(url)
    names = {package.name for package in parsed(LOCK.read_text())}
    assert set(asked) == names
    assert (done.returncode, done.stdout) == (
        0,
        f"deploy/runtime.lock: {len(names)} packages, 0 advisories, 0 not audited\n",
    )


def test_an_advisory_fails_with_what_fixes_it() -> None:
    with advisories({BAD: ADVISORY}) as (url, _):
        done = audit(url)
    assert done.returncode == 1
    assert "PYSEC-2026-1, fixed in 99.1\n" in done.stdout


def test_a_service_that_cannot_be_reached_is_no_pass() -> None:
    done = audit(f"http://127.0.0.1:{free_ports(1)[0]}/v1/query")
    assert done.returncode == 1
    assert "Nothing was audited: " in done.stderr
    assert "over the network" in done.stderr
    assert "Traceback" not in done.stderr
