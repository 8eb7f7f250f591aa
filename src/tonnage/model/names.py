"""Names of Kubernetes objects: the rules that names from a request must meet before anything is done with them."""

import re

from tonnage.model.excerpt import excerpt

SNAPSHOT = "tonnage-snapshot"
"""The ConfigMap in a snapshot that says by which configuration, and when, it was taken."""
LONGEST_LABEL, LONGEST_SUBDOMAIN, LONGEST_UID = 63, 253, 128
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_IS_LABEL = re.compile(_LABEL)
_IS_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_IS_UID = re.compile(r"[-._:A-Za-z0-9]+")


def namespace_fault(text: str) -> str:
    """Why a text is no name of a namespace (a DNS label); empty if it is one."""
    if len(text) <= LONGEST_LABEL and _IS_LABEL.fullmatch(text):
        return ""
    return f"{excerpt(text)!r} is no name of a namespace: up to {LONGEST_LABEL} of a-z, 0-9 and dashes inside"


def name_fault(text: str) -> str:
    """Why a text is no name of a pod or node (a DNS subdomain); empty if it is one."""
    if len(text) <= LONGEST_SUBDOMAIN and _IS_SUBDOMAIN.fullmatch(text):
        return ""
    return f"{excerpt(text)!r} is no Kubernetes name: up to {LONGEST_SUBDOMAIN} of a-z, 0-9, and dashes and dots inside"


def uid_fault(text: str) -> str:
    """Why a text is no UID; empty if it is one. Most UIDs are UUIDs, those of static pods are hashes."""
    if len(text) <= LONGEST_UID and _IS_UID.fullmatch(text):
        return ""
    return f"{excerpt(text)!r} is no UID: up to {LONGEST_UID} letters, digits and - . _ :"
