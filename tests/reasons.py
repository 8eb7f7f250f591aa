"""The reasons that the source of the engine names, found without running it."""

import ast
from pathlib import Path

import tonnage

SOURCE = Path(tonnage.__file__).parent
ENGINE = ("framework", "plugins", "actions")


def reasons_in_code() -> set[tuple[str, str]]:
    """Every reason that can be given, with the module that does: the names in REASONS, and each `Reason("...")`."""
    return {
        (module.stem, name)
        for package in ENGINE
        for module in sorted((SOURCE / package).rglob("*.py"))
        for part in ast.walk(ast.parse(module.read_text()))
        for name in _named(part)
    }


def _named(part: ast.AST) -> list[str]:
    match part:
        case ast.Assign(targets=[ast.Name("REASONS")], value=names):
            return list(ast.literal_eval(names))
        case ast.Call(func=ast.Name("Reason"), args=[ast.Constant(str(name)), *_]):
            return [name]
        case ast.Call(func=ast.Name("Reason"), args=[ast.Name("PLUGIN_FAILED"), *_]):
            return []
        case ast.Call(func=ast.Name("Reason")):
            raise AssertionError(f"write the reason's name where it is given: {ast.unparse(part)}")
        case _:
            return []
