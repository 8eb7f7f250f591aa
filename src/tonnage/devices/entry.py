"""Catalog entries: the sections of HAMi's device configuration and the flags that a vendor's file declares.

The keys of a section of HAMi's device configuration are a msgspec struct. Keys that only the device plugin reads are
checked and otherwise ignored. Numbers fit in 32 bits, as in HAMi.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec

from tonnage.devices.base import LARGEST_AMOUNT, Vendor

S = TypeVar("S", bound=msgspec.Struct)
C = TypeVar("C", bound=msgspec.Struct)

Name = Annotated[str, msgspec.Meta(pattern=r"^(([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?)?$")]
"""The name of a resource; empty if the section leaves it out."""
Amount = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_AMOUNT)]
Scale = Annotated[float, msgspec.Meta(ge=0)]
Word = str | int
"""A text that may look like a number, such as the name of a chip or a log level."""
Flags = Mapping[str, Any]
"""The values of HAMi's device flags that were given, by the name of the flag with underscores."""


class SectionKeys(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the structs that list a section's keys.

    A field whose name begins with `resource_` names a resource, which no other section may name.
    """


class CardKeys(SectionKeys, frozen=True, rename="camel"):
    """The keys that most vendors have."""

    resource_count_name: Name = ""
    resource_memory_name: Name = ""
    resource_core_name: Name = ""

    @property
    def resources(self) -> dict[str, str]:
        """The resources as the arguments of a vendor."""
        return {
            "count_resource": self.resource_count_name,
            "memory_resource": self.resource_memory_name,
            "cores_resource": self.resource_core_name,
        }


class CountKeys(SectionKeys, frozen=True, rename="camel"):
    """The keys of a vendor whose cards are only counted."""

    resource_count_name: Name = ""


class Section(NamedTuple, Generic[S]):
    """A section of HAMi's device configuration that is one map."""

    name: str
    keys: type[S]
    vendors: Callable[[S], Iterable[Vendor]]
    needed: tuple[str, ...] = ("resource_count_name",)
    """Fields that must be given."""
    any_of: tuple[str, ...] = ()
    """Fields of which at least one must be given; then none is needed by itself."""
    warnings: Callable[[S], Iterable[str]] = lambda section: ()


class ListSection(NamedTuple, Generic[C, S]):
    """A section that lists chips, each with a `common_word` that no other chip has."""

    name: str
    chip: type[S]
    vendors: Callable[[Sequence[S], C], Iterable[Vendor]]
    needed: tuple[str, ...]
    """Fields that every chip must have."""
    common: type[C]
    """The keys that hold for all chips. If `configs` is one of them, the section may be a map with the chips there."""
    warnings: Callable[[C], Iterable[str]] = lambda common: ()
    mistake: Callable[[S], str | None] = lambda chip: None
    """What is wrong with a chip whose keys are all valid."""


AnySection = Section[Any] | ListSection[Any, Any]


class VendorEntry(NamedTuple):
    """One vendor in the catalog."""

    sections: tuple[AnySection, ...]
    """In the order in which the vendors of different sections are asked."""
    usual: Callable[[Flags], Iterable[Vendor]]
    """The vendors without a device configuration: the defaults of their device plugins, changed by flags."""


def from_flags(flags: Flags, **arguments: str) -> dict[str, Any]:
    """A vendor's arguments from the flags that were given; each argument is followed by the flag's name."""
    return {argument: flags[flag] for argument, flag in arguments.items() if flag in flags}
