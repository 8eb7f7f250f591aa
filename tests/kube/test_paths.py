"""Paths of the API server: a name stays one segment, whoever chose it, and no other module writes paths."""

import ast
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tonnage
from tonnage.binder.binding import pod_path
from tonnage.kube.paths import api_path, below

SOURCE = Path(tonnage.__file__).parent
EXEMPT = {Path("kube/paths.py"), Path("model/kinds.py"), Path("kube/discovery.py")}
"""The helper itself; the paths of kinds, which hold no names; the root of discovery."""


def test_names_of_objects_stay_as_they_are() -> None:
    assert pod_path("team", "p-0.x", "binding") == "/api/v1/namespaces/team/pods/p-0.x/binding"
    assert api_path("coordination.k8s.io/v1", "leases") == "/apis/coordination.k8s.io/v1/leases"


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("../../../pods?x=", "..%2F..%2F..%2Fpods%3Fx%3D"),
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("a#b", "a%23b"),
        ("a b\r\nHost: x", "a%20b%0D%0AHost%3A%20x"),
        ("%2e%2e", "%252e%252e"),
    ],
)
def test_a_name_that_is_none_stays_one_segment(name: str, written: str) -> None:
    assert pod_path("default", name) == f"/api/v1/namespaces/default/pods/{written}"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4))
def test_what_goes_in_comes_out_segment_by_segment(names: list[str]) -> None:
    parts = below("/api/v1", *names).split("/")[3:]
    assert [unquote(part) for part in parts] == names
    assert not {".", ".."} & set(parts)


def test_no_other_module_puts_a_path_together() -> None:
    found = [
        f"{file.relative_to(SOURCE)}:{line}"
        for file in sorted(SOURCE.rglob("*.py"))
        if file.relative_to(SOURCE) not in EXEMPT and "lab" not in file.relative_to(SOURCE).parts
        for line in _paths_in(ast.parse(file.read_text()))
    ]
    assert not found, "build these with tonnage.kube.paths"


def _paths_in(tree: ast.Module) -> list[int]:
    """The lines with a text that begins as a path of the API server does."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(("/api/", "/apis/"))
    ]
