"""PodAdmission: HAMi's rules of admission, as a function from a pod as JSON to a verdict with a patch.

Pods come from the API server, which has checked their types. A pod that is malformed all the same is admitted as it is,
with a warning, so that the API server decides about it. docs/webhook.md has the table.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tonnage.devices.base import Admission, AdmissionError, Vendor
from tonnage.extender.webhook.patch import Operation, Wanted, merged, pointer, with_variables
from tonnage.extender.webhook.podview import (
    INIT,
    MAIN,
    ContainerView,
    Json,
    OddityError,
    items_at,
    map_at,
    places,
    text_at,
)
from tonnage.extender.webhook.quota import NoQuotas, QuotaBook, excess
from tonnage.model.excerpt import excerpt
from tonnage.model.pod import DEFAULT_SCHEDULER, Container

OK, BAD_REQUEST, FORBIDDEN, INVALID = 200, 400, 403, 422
_MOST_WARNINGS = 8
_LONGEST_WARNING = 256
"""The API server may cut longer warnings, and drops all of them if there are too many."""


class Verdict(msgspec.Struct, frozen=True):
    """The answer about one pod."""

    allowed: bool
    code: int = OK
    message: str = ""
    """Why the pod is denied, or for the log why it is admitted unchanged."""
    operations: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    """Sentences for the pod's author."""


def untouched(message: str) -> Verdict:
    """Admit a pod that does not concern Tonnage."""
    return Verdict(True, message=message)


def left_alone(why: str) -> Verdict:
    """Admit a malformed pod with a warning: the API server decides about it."""
    return Verdict(True, message=why, warnings=(excerpt(f"Tonnage left this pod as it is: {why}", _LONGEST_WARNING),))


class AdmissionRules(msgspec.Struct, frozen=True):
    """The options of admission."""

    scheduler_name: str = ""
    """The scheduler that pods with devices get; if empty they keep theirs."""
    overwrite_default_scheduler: bool = True
    """Whether pods with `default-scheduler` count as naming none."""
    deny_privileged: bool = False
    """Whether pods with devices and a privileged container are denied, instead of such containers being skipped."""


def device_resources(vendors: Sequence[Vendor]) -> frozenset[str]:
    """The resources that admission reads."""
    names = (name for vendor in vendors for name in (vendor.count_resource, *vendor.side_resources))
    return frozenset(name for name in names if name)


def admissions_of_others(vendors: Sequence[Vendor]) -> list[Admission]:
    """The admissions of a container that names no vendor's resources; they are the same for all such containers."""
    return [vendor.admit(Container()) for vendor in vendors]


class PodAdmission:
    """Decides about new pods by the rules of the vendors."""

    def __init__(self, vendors: Sequence[Vendor], rules: AdmissionRules, quotas: QuotaBook | None = None) -> None:
        self._vendors = vendors
        self._rules = rules
        self._quotas = quotas or NoQuotas()
        self._resources = device_resources(vendors)
        self._of_others = admissions_of_others(vendors)

    def judge(self, pod: object, namespace: str = "") -> Verdict:
        """The verdict about a new pod; `namespace` is the request's and takes precedence over the pod's."""
        if not isinstance(pod, Mapping):
            return Verdict(False, BAD_REQUEST, "the object of the request is not a pod: it is no JSON object")
        try:
            return self._judge(pod, namespace)
        except OddityError as error:
            return left_alone(str(error))

    def _judge(self, pod: Json, namespace: str) -> Verdict:
        metadata, spec = map_at(pod, "metadata"), map_at(pod, "spec")
        annotations = map_at(metadata, "annotations", "metadata")
        if not items_at(spec, MAIN, "spec"):
            return Verdict(False, FORBIDDEN, "pod has no containers")
        scheduler = text_at(spec, "schedulerName", "spec")
        if not self._is_ours(scheduler):
            return untouched(f"the pod names another scheduler: {excerpt(scheduler)}")
        containers = [place for field in (INIT, MAIN) for place in places(spec, field, self._resources)]
        judged, matched = [], False
        try:
            for place in containers:
                admissions = self._admissions(place, annotations)
                matched = matched or any(admission.matched for admission in admissions)
                changes = tuple(change for admission in admissions for change in admission.changes)
                judged.append(place._replace(changes=changes))
        except AdmissionError as error:
            return Verdict(False, INVALID, str(error))
        if matched:
            denied = self._denied(spec, annotations, namespace or text_at(metadata, "namespace", "metadata"), judged)
            if denied is not None:
                return denied
        skipped = [place for place in judged if place.asks and self._skips(place)]
        return Verdict(True, operations=tuple(self._patch(pod, judged, matched)), warnings=_about_skipped(skipped))

    def _is_ours(self, scheduler: str) -> bool:
        if scheduler in ("", self._rules.scheduler_name):
            return True
        return scheduler == DEFAULT_SCHEDULER and self._rules.overwrite_default_scheduler

    def _skips(self, place: ContainerView) -> bool:
        return place.is_privileged and not self._rules.deny_privileged

    def _admissions(self, place: ContainerView, annotations: Json) -> list[Admission]:
        if self._skips(place):
            return []
        if not place.asks:
            return self._of_others
        return [vendor.admit(place.container, annotations) for vendor in self._vendors]

    def _denied(self, spec: Json, annotations: Json, namespace: str, judged: list[ContainerView]) -> Verdict | None:
        """The denial of a pod with devices; None if it is admitted."""
        privileged = next((place.container.name for place in judged if place.is_privileged), None)
        if self._rules.deny_privileged and privileged is not None:
            return Verdict(False, FORBIDDEN, f"container {excerpt(privileged)} is privileged")
        if self._rules.scheduler_name and text_at(spec, "nodeName", "spec"):
            return Verdict(False, FORBIDDEN, "pod has node assigned")
        init, main = ([place.after for place in judged if place.field == field] for field in (INIT, MAIN))
        over = excess(self._quotas, namespace or "default", self._vendors, init, main, annotations)
        return Verdict(False, FORBIDDEN, f"exceeding resource quota: {over.message}") if over is not None else None

    def _patch(self, pod: Json, judged: list[ContainerView], matched: bool) -> Iterator[Operation]:
        spec: dict[str, str] = {}
        annotations: dict[str, str] = {}
        for change in (change for place in judged for change in place.changes):
            if change.field == "annotations":
                annotations[change.key] = change.value
            elif change.field == "runtimeClassName" and pod["spec"].get("runtimeClassName") is None:
                spec.setdefault("runtimeClassName", change.value)
        if matched and self._rules.scheduler_name:
            spec["schedulerName"] = self._rules.scheduler_name
        if annotations:
            yield from merged(pod, {"metadata": {"annotations": annotations}}, "")
        yield from merged(pod["spec"], spec, "/spec")
        for place in judged:
            yield from _container_patch(place)


def _container_patch(place: ContainerView) -> Iterator[Operation]:
    wanted: dict[str, dict[str, str]] = {}
    for change in place.changes:
        wanted.setdefault(change.field, {})[change.key] = change.value
    resources: dict[str, Wanted] = {field: wanted[field] for field in ("limits", "requests") if field in wanted}
    here = pointer("spec", place.field, place.number)
    if resources:
        yield from merged(place.raw, {"resources": resources}, here)
    if "env" in wanted:
        yield from with_variables(place.raw, wanted["env"], here)


def _about_skipped(skipped: list[ContainerView]) -> tuple[str, ...]:
    """Warnings about privileged containers with devices."""
    shown = skipped[:_MOST_WARNINGS]
    warnings = [
        excerpt(
            f"container {place.container.name} is privileged: Tonnage does not manage the devices it asks for, and "
            "it may fail on its node; drop the privilege or the request",
            _LONGEST_WARNING,
        )
        for place in shown
    ]
    if len(skipped) > len(shown):
        warnings.append(f"{len(skipped) - len(shown)} more containers are privileged and ask for devices")
    return tuple(warnings)
