"""The real API server asks the webhook about a pod exactly if the pod names a device resource."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.e2e.certificates import self_signed
from tests.e2e.deployment import PATHS, objects
from tests.extender.pods import box, judge, pod
from tests.server.listening import needs_openssl
from tests.waiting import until
from tonnage.devices.catalog import default_vendors
from tonnage.extender.webhook.admission import device_resources
from tonnage.lab.api import Api, ApiError, pods_path
from tonnage.lab.control_plane import ControlPlane

NAMES = sorted(device_resources(default_vendors()))
INVALID = 422

pytestmark = needs_openssl


class Asked(ThreadingHTTPServer):
    """A webhook that admits every pod and keeps the names of those it was asked about."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.certificate, key = self_signed(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.names = set[str]()

    @property
    def client_config(self) -> dict[str, str]:
        bundle = base64.b64encode(self.certificate.read_bytes()).decode()
        return {"url": f"https://127.0.0.1:{self.server_port}/webhook", "caBundle": bundle}


class _Answer(BaseHTTPRequestHandler):
    server: Asked

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = review.pop("request")
        self.server.names.add(f"{asked['namespace']}/{asked['name']}")
        answer = json.dumps({**review, "response": {"uid": asked["uid"], "allowed": True}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def asking(api: Api, folder: Path) -> Iterator[Asked]:
    """The API server asks, by the manifest in `deploy/`, and is known to do so."""
    server = Asked(folder)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        (hook,) = [thing for thing in objects() if thing["kind"] == "MutatingWebhookConfiguration"]
        hook["webhooks"][0]["clientConfig"] = server.client_config
        api.request("POST", PATHS["MutatingWebhookConfiguration"], hook, query={"fieldValidation": "Strict"})

        def is_asked() -> bool:
            create(api, "probe", pod(box(limits={"nvidia.com/gpu": "1"})))
            return "default/probe" in server.names

        until(is_asked, "the webhook is not asked")
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def create(api: Api, name: str, made: dict[str, Any], namespace: str = "default") -> None:
    """Create a pod without keeping it. Webhooks are asked before the API server validates the pod."""
    made["metadata"] = {**made["metadata"], "name": name, "namespace": namespace}
    made["metadata"].pop("managedFields", None)
    try:
        api.request("POST", pods_path(namespace), made, query={"dryRun": "All"})
    except ApiError as error:
        if error.status != INVALID:
            raise


def resources(**amounts: dict[str, str]) -> dict[str, Any]:
    return box(resources=amounts)


def pods() -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(NAMES):
        made[f"limit-{number}"] = pod(resources(limits={"cpu": "1", name: "1"}))
        made[f"request-{number}"] = pod(box("first"), resources(requests={name: "2"}))
        made[f"init-{number}"] = pod(box("first"), init=[resources(limits={name: "3"})])
    gpu = {"nvidia.com/gpu": "1"}
    privileged = box(limits=gpu, securityContext={"privileged": True})
    fraction = pod(box())
    fraction["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    return made | {
        "privileged": pod(privileged),
        "beside-privileged": pod(box("first", securityContext={"privileged": True}), box("second", limits=gpu)),
        "zero": pod(box(limits={"nvidia.com/gpu": "0"})),
        "other-scheduler": pod(box(limits=gpu), schedulerName="other"),
        "with-node": pod(box(limits=gpu), nodeName="n"),
        "sidecar": pod(box("first"), init=[box("side", limits=gpu, restartPolicy="Always")]),
        "last-of-many": pod(*(box(f"c{number}", limits={"cpu": "1"}) for number in range(200)), box(limits=gpu)),
        "plain": pod(box()),
        "no-resources": pod({"name": "main", "image": "busybox"}),
        "plain-init": pod(box("first"), init=[box("second", limits={"cpu": "1"})]),
        "plain-privileged": pod(box(securityContext={"privileged": True})),
        "many": pod(*(box(f"c{number}", limits={"cpu": "1", "memory": "1Gi"}) for number in range(200))),
        "other-resource": pod(box(limits={"example.com/fpga": "1", "nvidia.com/gpux": "1"})),
        "fraction": fraction,
    }


ASKED_BY_NAME = ("privileged", "beside-privileged", "zero", "other-scheduler", "with-node", "sidecar", "last-of-many")


def test_the_api_server_asks_about_pods_that_name_devices_only(control_plane: ControlPlane, tmp_path: Path) -> None:
    made = pods()
    expected = {
        name for name in made if name in ASKED_BY_NAME or name.rpartition("-")[0] in ("limit", "request", "init")
    }
    with asking(control_plane.api, tmp_path) as server:
        for name, one in made.items():
            create(control_plane.api, name, one)
        asked = {name.removeprefix("default/") for name in server.names} - {"probe"}
    assert asked == expected
    for name, one in made.items():
        verdict = judge(one, deny_privileged=True)
        minds = bool(not verdict.allowed or verdict.operations or verdict.warnings)
        assert name in asked or not minds, f"the webhook minds {name} and is not asked"


def test_pods_that_the_webhook_may_need_in_order_to_run_are_not_asked_about(
    fresh_control_plane: ControlPlane, tmp_path: Path
) -> None:
    api = fresh_control_plane.api
    for namespace, labels in {"tonnage": {}, "left-alone": {"hami.io/webhook": "ignore"}, "team": {}}.items():
        api.create("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})
    with asking(api, tmp_path) as server:
        for namespace in ("kube-system", "tonnage", "left-alone", "team"):
            create(api, "p", pod(box(limits={"nvidia.com/gpu": "1"})), namespace)
        ignored = pod(box(limits={"nvidia.com/gpu": "1"}))
        ignored["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
        create(api, "ignored", ignored, "team")
        assert server.names == {"default/probe", "team/p"}
