"""Faults that a copy of our extender is started with, so that a comparison has something to find."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np

from tonnage.cluster.holding import HoldingReader
from tonnage.devices import _mig, _plain, codec, enflame, kunlun
from tonnage.devices._plain import PlainVendor
from tonnage.devices.ascend import Ascend
from tonnage.devices.base import limit
from tonnage.devices.cambricon import Cambricon
from tonnage.devices.enflame import EnflameSliced
from tonnage.devices.kunlun import KunlunShared
from tonnage.devices.metax import MetaxShared
from tonnage.devices.neuron import Neuron
from tonnage.devices.nvidia import Nvidia
from tonnage.plugins.gpus import gpupolicy
from tonnage.plugins.gpus.devicequota import DeviceQuota
from tonnage.plugins.gpus.devices import Devices
from tonnage.plugins.gpus.gpupolicy import CardPolicy, GpuPolicy
from tonnage.plugins.helpers import cardrules
from tonnage.plugins.scoring.nodepolicy import NodePolicy

Fault = tuple[Any, str, Callable[..., Any] | bool]
"""What is replaced, by which function or value; a function gets the original one first."""


def _later_nodes_win(original: Any, self: Any, task: Any, nodes: Any) -> Any:
    score = original(self, task, nodes)
    return None if score is None else score + np.arange(len(score), dtype=np.float32) * 1e-3


def _wrong_way_round(original: Any, policy: Any, one_numa: bool, numa_first: bool) -> Any:
    return tuple((kind, not downwards) for kind, downwards in original(policy, one_numa, numa_first))


def _half(original: Any, self: Any, container: Any) -> Any:
    memory = original(self, container)
    return memory // 2 if memory and isinstance(self, Cambricon) else memory


def _from_the_bottom(original: Any, profiles: Any, memory: Any, taken: Any) -> Any:
    with patch.object(_mig, "FROM_THE_TOP", ("9g.",)):
        return original(profiles, memory, taken)


def _without_init_slots(original: Any, uses: Any, *more: Any) -> Any:
    return original(tuple(given for given in uses if given), *more)


def _even_unhealthy(original: Any, self: Any, model: Any) -> int:
    code: int = original(self, model)
    return 0 if code == cardrules.UNHEALTHY else code


def _lowest_numa_first(original: Any, policy: CardPolicy, one_numa: bool, numa_first: bool) -> Any:
    keys = original(policy, one_numa, numa_first)
    return tuple((kind, True) for kind, _ in keys) if policy == CardPolicy((gpupolicy.MUTEX,), False) else keys


def _one_place_per_card(original: Any, self: Any, task: Any, request: Any, row: int, candidates: Any) -> Any:
    return original(self, task, request, row, list(dict.fromkeys(candidates)))


def _rounded_down(original: Any, told: Any) -> Any:
    profiles = original(told)
    most = profiles[-1].slices
    return tuple(msgspec.structs.replace(one, cores=one.slices * 100 // most) for one in profiles)


def _under_one_name(original: Any, self: Any, tenancy: Any, others: Any) -> str:
    return "CardTenancyMismatch" if original(self, tenancy, others) else ""


def _first_pair(original: Any, annotations: Any) -> Any:
    return kunlun.uuid_lists(annotations, *kunlun.UUID_LISTS[:2])


def _without_commas(original: Any, annotations: Any, *names: str) -> Any:
    return original({key: text.strip(",") for key, text in annotations.items()}, *names)


def _as_if_one_byte(original: Any, request: Any, capacity: Any, weights: Any) -> Any:
    slots, memory, cores = capacity
    return original(request, (slots, memory or 1, cores), weights)


def _unless_nothing(original: Any, self: Any, container: Any, request: Any) -> Any:
    return original(self, container, request) if limit(container, self.memory_resource) != "0" else ()


def _without_the_count(original: Any, self: Any, container: Any, request: Any) -> Any:
    return tuple(change for change in original(self, container, request) if change.key != self.count_resource)


FAULTS: dict[str, Fault] = {
    "node ties go to the last name": (NodePolicy, "_score", _later_nodes_win),
    "card policies sort the wrong way round": (gpupolicy, "_sort_keys", _wrong_way_round),
    "types are not looked at": (Nvidia, "accepts_type", lambda original, self, *more: True),
    "UUID lists are not looked at": (PlainVendor, "uuid_lists", lambda original, self, notes: (None, frozenset())),
    "half the memory of an MLU": (PlainVendor, "memory", _half),
    "weights of slots and memory are swapped": (gpupolicy, "_weights", lambda original, text: original(text)[::-1]),
    "quotas are not counted": (DeviceQuota, "_within", lambda original, self, task, job: None),
    "unhealthy cards are given out": (cardrules.CardAsk, "_code_of", _even_unhealthy),
    "NUMA nodes are mixed": (Nvidia, "wants_one_numa", lambda original, self, notes: False),
    "MIG instances from the bottom": (_mig, "choose", _from_the_bottom),
    "slots of containers without cards are left out": (codec, "encode_pod", _without_init_slots),
    "init containers hold their cards for ever": (HoldingReader, "kept", lambda original, self, uses, number: uses),
    "vXPUs of all sizes share a card": (KunlunShared, "tenancy_conflict", lambda original, self, *more: ""),
    "QoS policies are mixed": (MetaxShared, "tenancy_conflict", lambda original, self, *more: ""),
    "devices of Neuron need not be neighbours": (Neuron, "pick", lambda original, self, *more: None),
    "compute of whole cards is not admitted": (Nvidia, "_is_exclusive", lambda original, self, container: False),
    "Ascend's memory is not rounded": (Ascend, "changes", lambda original, self, container, request: ()),
    "vXPU memory is not rounded": (KunlunShared, "changes", lambda original, self, container, request: ()),
    "mutex takes cards of the lowest NUMA node": (gpupolicy, "_sort_keys", _lowest_numa_first),
    "a MIG card serves one instance of a request": (Devices, "_instances", lambda original, *more: original(*more)[:1]),
    "topology-aware sees one place per MIG card": (GpuPolicy, "_best_linked", _one_place_per_card),
    "percents of slices are rounded down": (enflame, "_profiles", _rounded_down),
    "sizes without a profile are not told as such": (EnflameSliced, "mode_mismatch", lambda original, *more: ""),
    "classes and QoS policies have one reason": (MetaxShared, "tenancy_conflict", _under_one_name),
    "Kunlun's cards heed one pair of UUID lists": (kunlun, "_all_uuid_lists", _first_pair),
    "an init container's vXPU binds the size": (KunlunShared, "init_has_tenancy", True),
    "lists of commas are passed over": (_plain, "uuid_lists", _without_commas),
    "a comma makes no chain": (gpupolicy, "_policy", lambda original, text: original(text.strip(","))),
    "cards without memory have scores": (gpupolicy, "_factors", _as_if_one_byte),
    "vXPU memory of nothing stays": (KunlunShared, "changes", _unless_nothing),
    "a missing count is not added": (Nvidia, "changes", _without_the_count),
}


@contextmanager
def at_fault(name: str) -> Iterator[None]:
    """The program with a fault; without one if the name is empty."""
    if not name:
        yield
        return
    owner, attribute, replacement = FAULTS[name]
    with patch.object(owner, attribute, _in_place_of(getattr(owner, attribute), replacement)):
        yield


def _in_place_of(original: Any, replacement: Callable[..., Any] | bool) -> Any:
    if isinstance(replacement, bool):
        return replacement
    return lambda *given, **named: replacement(original, *given, **named)
