"""A vendor that nobody has heard of: its entry in the catalog is all that the rest of Tonnage needs."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.config.device_texts import NVIDIA, errors, vendors, warnings
from tests.devices.objects import container
from tests.extender.pods import OURS, box, patched, pod
from tests.scenario import cards, gpu, node, place, scenario
from tests.scenario import pod as pending
from tonnage.cli.group import group
from tonnage.devices import catalog
from tonnage.devices._plain import PlainVendor
from tonnage.devices.entry import CardKeys, Flags, Section, VendorEntry
from tonnage.extender.options import ExtenderOptions
from tonnage.extender.vendors import configured_vendors
from tonnage.model.node import Node

COUNT, MEMORY = "acme.com/anvil", "acme.com/anvil-memory"
SHARED = {"base", "catalog", "codec", "entry"}
"""Files of `devices` that are no vendor's."""
CONFIGURED = "acme: {resourceCountName: acme.com/a, resourceMemoryName: acme.com/m, rustProof: true}\n"


class Acme(PlainVendor):
    """What a new vendor's file would hold."""

    def __init__(self, *, count_resource: str = COUNT, memory_resource: str = MEMORY, cores_resource: str = "") -> None:
        super().__init__(
            name="Acme",
            count_resource=count_resource,
            memory_resource=memory_resource,
            cores_resource=cores_resource,
            record="hami.io/acme-devices",
            register="hami.io/node-acme-register",
            use_uuids="acme.com/use",
            refuse_uuids="acme.com/nouse",
        )


class _Keys(CardKeys, frozen=True, rename="camel"):
    rust_proof: bool = False


def _warnings(section: _Keys) -> Iterator[str]:
    if not section.rust_proof:
        yield "acme: anvils may rust"


def _usual(flags: Flags) -> list[Acme]:
    return [Acme()]


ENTRY = VendorEntry(
    sections=(Section("acme", _Keys, lambda section: [Acme(**section.resources)], warnings=_warnings),),
    usual=_usual,
)


@pytest.fixture(autouse=True)
def in_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "ENTRIES", (*catalog.ENTRIES, ENTRY))


def anvils(name: str) -> Node:
    registered = json.dumps([gpu(f"{name}/0", memory=8000, type="Acme")])
    return node(name, annotations={"hami.io/node-acme-register": registered}, **{COUNT: 10})


def test_every_vendors_file_is_in_the_catalog_once():
    files = {path.stem for path in Path(catalog.__file__).parent.glob("[!_]*.py")} - SHARED
    entries = [import_module(f"tonnage.devices.{file}").ENTRY for file in files]
    assert len(catalog.ENTRIES) == len(entries) + 1
    assert all(catalog.ENTRIES.count(entry) == 1 for entry in entries)


def test_it_is_asked_last():
    assert [vendor.name for vendor in catalog.default_vendors()][-1] == "Acme"
    assert [*catalog.sections()][-1] == "acme"


def test_a_device_configuration_may_have_its_section():
    found = vendors(CONFIGURED + NVIDIA)
    assert list(found) == ["NVIDIA", "Acme"]
    assert found["Acme"].request(container({"acme.com/a": 1, "acme.com/m": 500})).memory == 500
    assert warnings(CONFIGURED) == []
    assert warnings(CONFIGURED.replace("true", "false")) == ["FILE:1:7: acme: anvils may rust"]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("acne: {}\n", "1:1: a device configuration has no section acne; did you mean acme?"),
        (CONFIGURED.replace("rustProof", "rustProf"), "1:71: acme has no key rustProf; did you mean rustProof?"),
        ("acme: {rustProof: true}\n", "1:7: acme: resourceCountName must be given"),
        (
            NVIDIA + CONFIGURED.replace("acme.com/a,", "nvidia.com/gpu,"),
            "4:27: resourceCountName: nvidia.com/gpu stands twice; the first is on line 2",
        ),
    ],
)
def test_mistakes_in_its_section_are_told_with_their_place(text: str, wrong: str):
    assert errors(text) == [f"FILE:{wrong}"]


def test_check_knows_its_section(tmp_path: Path):
    file = tmp_path / "devices.yaml"
    file.write_text(CONFIGURED)
    done = CliRunner().invoke(group, ["check", str(file)])
    assert (done.exit_code, done.output) == (0, f"{file}: valid\n")


def test_the_extender_serves_it_with_a_device_configuration_and_without(tmp_path: Path):
    file = tmp_path / "devices.yaml"
    file.write_text(CONFIGURED)
    (acme,) = configured_vendors(ExtenderOptions(device_config_file=str(file))).vendors
    assert acme.count_resource == "acme.com/a"
    assert configured_vendors(ExtenderOptions()).vendors[-1].count_resource == COUNT


def test_admission_gives_its_pods_to_tonnage():
    assert patched(pod(box(limits={COUNT: "1"})))["spec"]["schedulerName"] == OURS


def test_its_cards_are_placed():
    cluster = scenario(anvils("a"))
    assert cards(place(cluster, pending("fits", **{COUNT: 1, MEMORY: 6000}))) == ["a/0"]
    assert cards(place(cluster, pending("waits", **{COUNT: 1, MEMORY: 6000}))) == []
