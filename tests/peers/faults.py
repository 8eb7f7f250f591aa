"""Faults that a copy of our extender is started with, so that a comparison has something to find."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from tonnage.cluster.holding import HoldingReader
from tonnage.devices import _mig, codec
from tonnage.devices._plain import PlainVendor
from tonnage.devices.ascend import Ascend
from tonnage.devices.cambricon import Cambricon
from tonnage.devices.kunlun import KunlunShared
from tonnage.devices.metax import MetaxShared
from tonnage.devices.neuron import Neuron
from tonnage.devices.nvidia import Nvidia
from tonnage.plugins.gpus import gpupolicy
from tonnage.plugins.gpus.devicequota import DeviceQuota
from tonnage.plugins.helpers import cardrules
from tonnage.plugins.scoring.nodepolicy import NodePolicy

Fault = tuple[Any, str, Callable[..., Any]]
"""What is replaced, by which function; it gets the original one first."""


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
}


@contextmanager
def at_fault(name: str) -> Iterator[None]:
    """The program with a fault; without one if the name is empty."""
    if not name:
        yield
        return
    owner, attribute, replacement = FAULTS[name]
    original = getattr(owner, attribute)
    with patch.object(owner, attribute, lambda *given, **named: replacement(original, *given, **named)):
        yield
