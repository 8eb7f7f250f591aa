"""The software bill of materials: what the image holds beside its base, as CycloneDX JSON."""

from datetime import UTC, datetime
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from release.lock import LockedPackage

PROJECT = "tonnage"


def bill_of_materials(version: str, wheel: str, packages: list[LockedPackage], time: int) -> str:
    """The document for a wheel, given by its hash, and the packages of the lock."""
    whole = _component(PROJECT, version, [wheel], ComponentType.APPLICATION)
    whole.licenses.add(LicenseExpression("Apache-2.0"))
    parts = {package.name: _component(package.name, package.version, package.hashes) for package in packages}
    bom = Bom(
        components=parts.values(), metadata=BomMetaData(component=whole, timestamp=datetime.fromtimestamp(time, UTC))
    )
    # The same wheel with the same packages is the same document.
    bom.serial_number = uuid5(NAMESPACE_URL, "\n".join([wheel, *(part.bom_ref.value or "" for part in parts.values())]))
    by_name = {PROJECT: whole, **parts}
    for name, dependent in by_name.items():
        wanted = [parts[package.name] for package in packages if name in package.wanted_by]
        bom.register_dependency(dependent, wanted)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _component(
    name: str, version: str, hashes: tuple[str, ...] | list[str], kind: ComponentType = ComponentType.LIBRARY
) -> Component:
    """A package, with the hashes of the files of which one is installed."""
    address = PackageURL("pypi", None, name, version)
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(str(address)),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=content) for content in hashes],
    )
    return Component(
        name=name, version=version, type=kind, purl=address, bom_ref=str(address), external_references=[files]
    )
