"""Links of cards as NVML shows them: each card's are read once, whatever the number of pairs."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pynvml

from tonnage.agent.core.links import CardLinks

_LINKS = 36
_CARD, _SWITCH = 0, 2
_NO_LINK = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument, pynvml.NVMLError_FunctionNotFound)


def links_of(handles: Mapping[str, Any]) -> dict[str, CardLinks]:
    """The links of cards, by UUID; empty if NVML does not describe all of them."""
    if len(handles) < 2:
        return {}
    try:
        buses = {str(pynvml.nvmlDeviceGetPciInfo(handle).busId).lower(): uuid for uuid, handle in handles.items()}
        return {uuid: _links(uuid, handles, buses) for uuid in handles}
    except pynvml.NVMLError:
        return {}


def _links(uuid: str, handles: Mapping[str, Any], buses: Mapping[str, str]) -> CardLinks:
    handle = handles[uuid]
    ancestors = {
        other: int(pynvml.nvmlDeviceGetTopologyCommonAncestor(handle, there))
        for other, there in handles.items()
        if other != uuid
    }
    direct: Counter[str] = Counter()
    switched = 0
    for link in range(_LINKS):
        try:
            if not pynvml.nvmlDeviceGetNvLinkState(handle, link):
                continue
            kind = pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)
            if kind == _SWITCH:
                switched += 1
            elif kind == _CARD:
                other = buses.get(str(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId).lower())
                direct.update([other] if other else [])
        except _NO_LINK:
            continue
    return CardLinks(ancestors, dict(direct), switched)
