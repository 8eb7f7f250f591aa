"""KAI's GPU sharing: annotations that request a part of a card, and labels that name the pods sharing a card.

A pod sets `gpu-fraction` or `gpu-memory` and has no GPU in its containers' resources. Once it runs, a label names the
group of pods that share its card; a reservation pod holds that card for the group.
"""

from fractions import Fraction

from tonnage.devices.base import LARGEST_AMOUNT, MOST_DEVICES, PERCENTAGE_UNSET, CardGroup, DeviceRequest, RequestError
from tonnage.model.excerpt import quoted
from tonnage.model.number import decimal_number, whole_number
from tonnage.model.pod import Pod

FRACTION = "gpu-fraction"
MEMORY = "gpu-memory"
NUMBER = "gpu-fraction-num-devices"
CONTAINER = "gpu-fraction-container-name"
ANNOTATIONS = (FRACTION, MEMORY, NUMBER)
GROUP = "runai-gpu-group"
RESERVATIONS = "kai-resource-reservation"
RESERVED = "run.ai/reserve_for_gpu_index"
_STEPS = 10**9
"""Fractions are read to nine digits, which keeps their products with a card's memory within 64 bits."""


def shared_request(pod: Pod, vendor: str) -> tuple[int, DeviceRequest] | None:
    """The request that a pod's annotations make, and the position of the container that gets the cards."""
    annotations = pod.annotations
    fraction, memory = annotations.get(FRACTION), annotations.get(MEMORY)
    number = _whole(NUMBER, annotations[NUMBER], most=MOST_DEVICES) if NUMBER in annotations else 1
    if fraction is None and memory is None:
        if NUMBER in annotations:
            raise RequestError(
                f"annotation {NUMBER} says on how many cards, but neither {FRACTION} nor {MEMORY} how much"
            )
        return None
    if fraction is not None and memory is not None:
        raise RequestError(f"annotations {FRACTION} and {MEMORY} both say how much of a card; keep one of them")
    request = DeviceRequest(
        vendor=vendor,
        count=number,
        memory=0 if memory is None else _whole(MEMORY, memory, " of MiB"),
        percentage=PERCENTAGE_UNSET,
        cores=0,
        fraction=(0, 1) if fraction is None else _fraction(fraction),
        shares=True,
    )
    return _position(pod), request


def groups(pod: Pod) -> tuple[CardGroup, ...]:
    """The groups that a pod's labels name: one in a label's value, or several in labels' keys."""
    labels = pod.labels
    card = ""
    is_reservation = pod.metadata.namespace == RESERVATIONS
    if is_reservation:
        card = pod.annotations.get(RESERVED, "")
    several = sorted(key.removeprefix(f"{GROUP}/") for key in labels if key.startswith(f"{GROUP}/"))
    names = several or [labels[GROUP]] if several or labels.get(GROUP) else []
    return tuple(CardGroup(name, card, is_reservation) for name in names)


def _fraction(text: str) -> tuple[int, int]:
    """A fraction between 0 and 1 as numerator and denominator."""
    value = decimal_number(text)
    if value is None or not 0 < value < 1:
        message = f"annotation {FRACTION}: {quoted(text)} is not a number above 0 and below 1"
        raise RequestError(f"{message}; whole cards are asked for by nvidia.com/gpu")
    if value * _STEPS < 1:
        raise RequestError(f"annotation {FRACTION}: {quoted(text)} is less than a billionth of a card")
    return Fraction(int(Fraction(value) * _STEPS), _STEPS).as_integer_ratio()


def _whole(annotation: str, text: str, unit: str = "", most: int = LARGEST_AMOUNT) -> int:
    number = whole_number(text.strip(), 1, most)
    if number is None:
        expected = f"a whole number{unit} from 1 to {most}"
        raise RequestError(f"annotation {annotation}: {quoted(text)} is not {expected}")
    return number


def _position(pod: Pod) -> int:
    """The position of the container that gets the cards: the named one, or the first that is no init container."""
    init = pod.spec.initContainers or []
    name = pod.annotations.get(CONTAINER)
    if name is None:
        if not pod.spec.containers:
            raise RequestError("the pod has no containers")
        return len(init)
    for position, container in enumerate([*init, *pod.spec.containers]):
        if container.name == name:
            return position
    raise RequestError(f"annotation {CONTAINER}: the pod has no container {quoted(name)}")
