"""The registry of annotations and labels knows all that the code writes, and reserves no user's wish."""

import ast
import asyncio
import re
from itertools import count

import pytest
from hypothesis import given, settings

from tests.config.device_texts import FULL
from tests.devices.test_records import CARDS, POD_USES, UUIDS
from tests.paths import ROOT
from tests.properties.worlds import examples
from tests.scenario import node, pod, scenario
from tonnage.binder.binding import BindingWriter
from tonnage.config.deviceconfig import load_devices
from tonnage.devices.base import DeviceUse, Handover, MigPlacement, Vendor
from tonnage.devices.catalog import default_vendors
from tonnage.framework.session import Session
from tonnage.model.annotations import LOCK
from tonnage.model.pod import Container, ResourceRequirements
from tonnage.plugins.defaults import default_plugins
from tonnage.policies.keys import (
    ANY_ENDING,
    NODE,
    POD,
    POD_GROUP,
    Writer,
    registry,
    reserved,
    written_by,
)

VENDORS = default_vendors()
CONFIGURED = load_devices(FULL, "devices").vendors
KEYS = registry(VENDORS)


def covers(keys: tuple[str, ...], key: str) -> bool:
    return any(
        key == one or (one.endswith(ANY_ENDING) and key.startswith(one.removesuffix(ANY_ENDING))) for one in keys
    )


def written(vendor: Vendor, uses: tuple[tuple[DeviceUse, ...], ...]) -> set[str]:
    numbers = count()
    asked = ResourceRequirements(limits={"aws.amazon.com/neuroncore": 1})
    containers = tuple(Container(f"c{next(numbers)}", asked) for _ in uses)
    return set(vendor.encode_pod(uses, Handover("node", CARDS, containers, 1)))


@pytest.mark.parametrize("vendor", [*VENDORS, *CONFIGURED], ids=lambda vendor: vendor.name)
@settings(max_examples=examples(20))
@given(uses=POD_USES)
def test_what_a_vendor_writes_of_a_pod_is_reserved(vendor, uses):
    keys = registry([vendor])
    ours = written_by(Writer.BINDING, keys, POD)
    assert [key for key in written(vendor, uses) if not covers(ours, key)] == []
    assert set(ours) <= set(reserved(keys, POD))


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_a_vendors_reserved_keys_are_really_written(vendor):
    instance = DeviceUse(UUIDS[0], 1000, 10, "1g.5gb", MigPlacement(0, 1))
    found = written(vendor, ((instance,),))
    named = [vendor.allocated, vendor.to_allocate, *vendor.plugin_annotations]
    assert [key for key in named if key and not any(covers((key,), one) for one in found)] == []


def test_a_binding_writes_reserved_keys_only():
    sent = []

    class Client:
        async def request(self, method, path, *, body, **_):
            sent.append((method, path, body["metadata"]))

    cluster = scenario(node("a", gpus=1), pod("p", gpus=1, memory=1000))
    with Session(cluster, default_plugins()) as session:
        decision = session.place(cluster.waiting["default/p"])

    async def main():
        writer = BindingWriter(Client(), cluster, lambda: 1.0, lambda: 1.0)
        await writer.write(decision)
        await writer.label(decision.task, "a")
        await writer.node_locks.take({LOCK: "now,default,p"}, "a", 1.0)

    asyncio.run(main())
    (_, _, binding), (_, _, labelled), (_, _, locked) = sent
    assert len(binding["annotations"]) > 4
    assert set(binding["annotations"]) <= set(written_by(Writer.BINDING, KEYS, POD))
    assert set(labelled["labels"]) <= set(written_by(Writer.SCHEDULER, KEYS, POD, labels=True))
    assert set(locked["annotations"]) <= set(written_by(Writer.SCHEDULER, KEYS, NODE))


def test_every_key_is_there_once_and_has_writers_and_a_meaning():
    assert all(key.writers and key.meaning and key.key for key in KEYS)
    names = [(key.kind, key.is_label, key.key) for key in KEYS]
    assert len(names) == len(set(names))
    assert {key.kind for key in KEYS} == {POD, NODE, POD_GROUP}


def test_no_wish_is_reserved():
    wishes = {key for vendor in VENDORS for key in (*vendor.policy_annotations, *vendor.sharing_annotations)}
    wishes |= {"gpu-fraction", "gpu-memory", "tonnage.io/queue", "tonnage.io/min-members", "nvidia.com/use-gpuuuid"}
    kept = reserved(KEYS, POD)
    assert [wish for wish in sorted(wishes) if covers(kept, wish)] == []
    told = {key.key for key in KEYS if key.kind == POD and not key.is_label}
    assert wishes <= told


def test_what_the_webhook_writes_under_the_authors_name_is_not_reserved():
    text = "".join(path.read_text() for path in (ROOT / "src" / "tonnage" / "devices").glob("*.py"))
    # Each such change is written with a name that the registry lists for the webhook.
    assert set(re.findall(r'AdmissionChange\("annotations", (\w+)', text)) == {"REQUEST_NUMBER", "QOS"}
    by_webhook = {key.key for key in KEYS if Writer.WEBHOOK in key.writers}
    assert by_webhook == {"mthreads.com/request-gpu-num", "metax-tech.com/sgpu-qos-policy"}
    assert not by_webhook & set(reserved(KEYS, POD))


def test_the_servers_write_the_lock_and_the_handshakes_of_nodes():
    handshakes = {vendor.handshake_annotation for vendor in VENDORS if vendor.handshake_annotation}
    locks = {"hami.io/mutex.lock", "cambricon.com/dsmlu.lock"}
    assert set(written_by(Writer.SCHEDULER, KEYS, NODE)) == locks | handshakes


def test_every_key_of_a_schedulers_domain_in_the_code_is_registered():
    """A new annotation or label takes an entry in the registry."""
    domains = re.compile(
        r"(tonnage\.io|hami\.io|kai\.scheduler|run\.ai|([a-z-]+\.)?volcano\.sh)/(?!v\d)[\w.-]*[A-Za-z0-9]"
    )
    known = {key.key for key in KEYS} | {"kai.scheduler/node-pool", "tonnage.io/"}
    found = {
        part.value
        for path in sorted((ROOT / "src" / "tonnage").rglob("*.py"))
        for part in ast.walk(ast.parse(path.read_text()))
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and domains.fullmatch(part.value)
    }
    records = {re.sub(r"-(to-)?allocate(d)?$", "", key) for key in known}
    assert sorted(found - known - records) == []


def test_the_page_lists_the_reserved_keys_that_are_no_vendors():
    page = (ROOT / "docs" / "admission-policies.md").read_text().partition("## Reserved keys")[2]
    shown = set(re.findall(r"^\| `([^`]+)` \| (\w+)(, label)? \|", page, re.MULTILINE))
    wanted = {key for key in registry([]) if key.is_reserved and key.kind != NODE}
    assert shown == {(key.key, key.kind, ", label" if key.is_label else "") for key in wanted}
