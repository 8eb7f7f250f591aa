"""AdmissionReviews as an API server sends them."""

import json

V1, V1BETA1 = "admission.k8s.io/v1", "admission.k8s.io/v1beta1"


def review(thing=None, version=V1, **request):
    asked = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "name": "p",
        "namespace": "team",
        "operation": "CREATE",
        "userInfo": {"username": "admin", "groups": ["system:authenticated"]},
        "object": thing,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    } | request
    return json.dumps({"kind": "AdmissionReview", "apiVersion": version, "request": asked}).encode()
