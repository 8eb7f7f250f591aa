"""The rooms of plugins: what is a plugin, what is private to a family, what families share."""

import ast
from collections.abc import Iterator
from importlib import import_module
from inspect import isclass
from pathlib import Path

import tonnage
from tonnage.config.tiers import registered_points
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import BATCH_NODE_ORDER, GPU_ORDER, NODE_ORDER
from tonnage.plugins.catalog import BUILT_IN, PluginRole

SOURCE = Path(tonnage.__file__).parent
PLUGINS = SOURCE / "plugins"
SHARED = {
    "tonnage.plugins.fragmentation.fragments",
    "tonnage.plugins.fragmentation.trial",
    "tonnage.plugins.fragmentation.typicalpods",
    "tonnage.plugins.fragmentation.usablecards",
    "tonnage.plugins.queues.queuecounts",
}
"""Modules of a family that are no plugins, and that other packages use."""


def module_of(file: Path) -> str:
    return ".".join(("tonnage", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def package_of(module: str) -> str:
    return module.rpartition(".")[0]


def imports() -> Iterator[tuple[str, str]]:
    """Each importing module with each module of `tonnage.plugins` that it imports."""
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            for name in names:
                path = SOURCE.joinpath(*name.split(".")[1:]).with_suffix(".py")
                if name.startswith("tonnage.plugins.") and path.is_file():
                    yield module_of(file), name


def is_private(module: str) -> bool:
    return module.rpartition(".")[2].startswith("_")


def families() -> dict[str, list[str]]:
    folders = sorted({file.parent for file in PLUGINS.glob("*/*.py")} - {PLUGINS / "helpers"})
    files = {folder: sorted(folder.glob("*.py")) for folder in folders}
    return {folder.name: [module_of(file) for file in files[folder] if file.stem != "__init__"] for folder in folders}


def test_a_private_module_is_imported_only_by_its_own_family() -> None:
    found = {(importer, name) for importer, name in imports() if is_private(name)}
    assert found
    assert sorted((a, b) for a, b in found if package_of(a) != package_of(b)) == []


def test_every_other_module_of_a_family_is_a_plugin_of_the_catalog() -> None:
    listed = {f"tonnage.plugins.{entry.path.partition(':')[0]}" for entry in BUILT_IN.values()}
    public = {module for modules in families().values() for module in modules if not is_private(module)}
    assert public - SHARED == listed
    assert public > SHARED


def test_the_catalog_names_every_plugin_class() -> None:
    for name, entry in BUILT_IN.items():
        kind = entry.load()
        inside = [value for value in vars(import_module(kind.__module__)).values() if isclass(value)]
        own = [value for value in inside if issubclass(value, Plugin) and value.__module__ == kind.__module__]
        assert own == [kind]
        assert kind.name == name


def test_the_catalog_says_what_plugins_register() -> None:
    for entry in BUILT_IN.values():
        points = set(registered_points(entry.load()()))
        assert (PluginRole.ORDERS_CARDS in entry.role) == (GPU_ORDER.name in points)
        if PluginRole.SCORES_NODES in entry.role:
            assert points & {NODE_ORDER.name, BATCH_NODE_ORDER.name}


def test_a_private_module_is_needed_and_a_shared_one_is_shared() -> None:
    used = set(imports())
    for modules in families().values():
        for module in modules:
            importers = {importer for importer, name in used if name == module}
            if is_private(module):
                assert importers, f"nothing imports {module}"
            elif module in SHARED:
                assert {package_of(importer) for importer in importers} != {package_of(module)}


def test_a_helper_serves_more_than_one_family() -> None:
    used = set(imports())
    for file in sorted((PLUGINS / "helpers").glob("[!_]*.py")):
        module = module_of(file)
        packages = {package_of(importer) for importer, name in used if name == module} - {"tonnage.plugins.helpers"}
        assert len(packages) > 1, f"{module} serves {packages} only and belongs there"
