"""An API server that reviews tokens and rights: tokens are names of users, and each user has some rights."""

import json
from collections.abc import Mapping
from typing import Any

from tonnage.kube.errors import ConnectionLostError
from tonnage.server.authorization import TOKEN_REVIEWS

Rights = Mapping[str, set[tuple[str, ...]]]
"""By user: ("get", path) or ("list", resource, namespace), the namespace empty for all of them."""
RIGHTS: Rights = {
    "admin": {("get", "/dashboard"), ("get", "/explain/pod/theirs"), ("get", "/debug/config")},
    "tenant": {("list", "pods", "default")},
    "neighbour": {("list", "pods", "default"), ("list", "nodes", "")},
    "watcher": {("list", "nodes", ""), ("list", "pods", "")},
    "nobody": set(),
}


class ReviewingApi:
    """Knows some users and their rights."""

    def __init__(self, rights: Rights = RIGHTS) -> None:
        self.rights = rights
        self.asked: list[str] = []
        self.down: set[str] = set()
        """The resources about which it does not answer."""

    async def request(self, method: str, path: str, *, body: Any, timeout: float) -> bytes:
        spec = body["spec"]
        if path == TOKEN_REVIEWS:
            self.asked.append("token")
            user = spec["token"] if spec["token"] in self.rights else ""
            return json.dumps({"status": {"authenticated": bool(user), "user": {"username": user}}}).encode()
        asked: tuple[str, ...]
        if "nonResourceAttributes" in spec:
            asked = (spec["nonResourceAttributes"]["verb"], spec["nonResourceAttributes"]["path"])
        else:
            about = spec["resourceAttributes"]
            resource = ".".join(part for part in (about["resource"], about["group"]) if part)
            asked = (about["verb"], resource, about["namespace"])
            if resource in self.down:
                raise ConnectionLostError("POST: connection refused")
        self.asked.append(" ".join(asked))
        return json.dumps({"status": {"allowed": asked in self.rights[spec["user"]]}}).encode()
