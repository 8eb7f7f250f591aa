"""Names of the code: public classes have names of their own, and modules are called as the glossary's terms."""

import ast
from collections import Counter

from tests.paths import ROOT

SOURCE = ROOT / "src" / "tonnage"
MODULES = sorted(SOURCE.rglob("*.py"))
RETIRED = {
    *("Picture", "Standing", "Parts", "Placing", "Voice", "Telling", "Attention", "Backlog", "Portions", "Deciding"),
    *("Promises", "Waking", "Waiting", "Gates", "Guest", "Candidacy", "Keeper", "Leading", "Duties", "Desk"),
    *("Closeness", "Neighbours", "Spreading", "Serving", "Turns", "Unoffered", "Sentences", "AtRandom", "UsualPod"),
    *("picture", "standing", "attention", "backlog", "portions", "deciding", "promises", "waking", "waiting", "gates"),
    *("obstacle", "candidacy", "keeping", "leading", "desk", "seating", "sit_down", "get_up", "closeness", "stock"),
    *("neighbours", "spreading", "company", "may_join", "usualpods", "serving", "turns", "moment"),
    *("unoffered", "sentences", "voice", "telling", "settings", "doors", "batch"),
}
"""Names of modules, classes and functions that have the field's noun now."""


def definitions() -> list[tuple[str, str]]:
    """Every class and function of a module, with the module's path."""
    return [
        (part.name, str(module.relative_to(SOURCE)))
        for module in MODULES
        for part in ast.parse(module.read_text()).body
        if isinstance(part, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_no_two_public_classes_have_one_name() -> None:
    names = Counter(name for name, _ in definitions() if name[0].isupper())
    assert [name for name, count in names.items() if count > 1] == []


def test_retired_names_are_not_used_again() -> None:
    parts = {(part, str(module.relative_to(SOURCE))) for module in MODULES for part in module.with_suffix("").parts}
    assert [(name, where) for name, where in (*definitions(), *sorted(parts)) if name in RETIRED] == []


def test_a_module_says_in_its_first_line_what_it_owns() -> None:
    for module in MODULES:
        text = ast.get_docstring(ast.parse(module.read_text()))
        assert text, module
        assert not text.startswith(("What ", "Who ", "Where ", "How ", "Whether ", "Which ", "Those ", "Whose ")), (
            module
        )


def test_packages_stay_small_enough_to_be_looked_through() -> None:
    sizes = Counter(module.parent for module in MODULES if module.name != "__init__.py")
    assert {str(folder.relative_to(SOURCE)): size for folder, size in sizes.items() if size > 22} == {}
