"""AdmissionReview: the API server's request about an object, and the response in the same version."""

from base64 import b64encode
from collections.abc import Callable

import msgspec

from tonnage.extender.webhook.admission import BAD_REQUEST, FORBIDDEN, INVALID, Verdict, left_alone, untouched
from tonnage.model.excerpt import excerpt
from tonnage.model.names import namespace_fault, uid_fault
from tonnage.model.wire import WireError, decode, encode

KIND = "AdmissionReview"
VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
_LONGEST_MESSAGE = 1000
"""Of the sentence about a pod, in characters."""
_REASONS = {BAD_REQUEST: "BadRequest", FORBIDDEN: "Forbidden", INVALID: "Invalid"}

Judge = Callable[[object, str], Verdict]
"""Decides about a new pod, given as plain JSON, in a namespace."""


class ReviewError(ValueError):
    """A body that is no AdmissionReview and gets HTTP status 400."""


class _Kind(msgspec.Struct, gc=False, frozen=True):
    group: str = ""
    kind: str = ""


class Question(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """The operation and its object."""

    uid: str
    kind: _Kind = _Kind()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")


class Review(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """The envelope of a question."""

    api_version: str
    kind: str
    request: Question


class _Status(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    code: int
    message: str = ""
    reason: str = ""


class _Response(msgspec.Struct, gc=False, frozen=True, rename="camel", omit_defaults=True):
    uid: str
    allowed: bool
    status: _Status | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: tuple[str, ...] = ()


class _Answer(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    api_version: str
    kind: str
    response: _Response


def read_review(body: bytes) -> Review:
    """The review in a request's body; ReviewError if there is none."""
    try:
        review = decode(body, Review)
    except WireError as error:
        where = f" at {error.path}" if error.path else ""
        raise ReviewError(f"this is no {KIND}{where}: {error.message}") from error
    if review.kind != KIND or review.api_version not in VERSIONS:
        what = f"{excerpt(review.kind)} of {excerpt(review.api_version)}"
        raise ReviewError(f"this is {what}; expected {KIND} of {' or '.join(VERSIONS)}")
    fault = uid_fault(review.request.uid)
    if fault:
        raise ReviewError(f"this is no {KIND} at request.uid: {fault}")
    return review


def decide(question: Question, judge: Judge) -> Verdict:
    """The verdict about a question; everything but the creation of a pod is allowed."""
    if question.operation not in ("CREATE", ""):
        return untouched(f"{excerpt(question.operation)} changes nothing about devices")
    if (question.kind.group, question.kind.kind) not in (("", "Pod"), ("", "")):
        return untouched(f"{excerpt(question.kind.kind)} is no pod")
    if question.sub_resource:
        return untouched(f"pods/{excerpt(question.sub_resource)} changes nothing about devices")
    fault = namespace_fault(question.namespace) if question.namespace else ""
    if fault:
        return Verdict(False, BAD_REQUEST, f"request.namespace: {fault}")
    try:
        pod = decode(question.object, object)
    except WireError as error:
        return Verdict(False, BAD_REQUEST, f"the object of the request cannot be read: {error.message}")
    try:
        return judge(pod, question.namespace)
    except Exception as error:
        # A bug of ours must not keep a pod from being created.
        return left_alone(f"internal error: {type(error).__name__}: {error}")


def answer(review: Review, verdict: Verdict) -> bytes:
    """The response to a review."""
    status = None
    if not verdict.allowed or verdict.message:
        reason = "" if verdict.allowed else _REASONS.get(verdict.code, "")
        status = _Status(verdict.code, excerpt(verdict.message, _LONGEST_MESSAGE), reason)
    patch = b64encode(encode(verdict.operations)).decode() if verdict.operations else None
    response = _Response(
        uid=review.request.uid,
        allowed=verdict.allowed,
        status=status,
        patch=patch,
        patch_type="JSONPatch" if patch else None,
        warnings=verdict.warnings,
    )
    return encode(_Answer(review.api_version, KIND, response))
