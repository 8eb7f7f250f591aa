"""Contradictions in a configuration: one plugin packs pods as strongly as another spreads them."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from tonnage.config.notes import Notes, Position
from tonnage.framework.failures import failure
from tonnage.framework.plugin import Plugin, Pull

_LEVELS = _EMPTIER, _FULLER = 0.25, 0.75


def warn_of_cancelling(plugins: Sequence[tuple[Plugin, Position]], notes: Notes) -> None:
    """Warn of every two plugins whose scores add up to the same sum on every node."""
    pulls = [(pull, position) for plugin, position in plugins if (pull := _pull(plugin, position, notes)) is not None]
    for (one, _), (other, position) in combinations(pulls, 2):
        if one.slope + other.slope == 0 and _weigh_alike(one.weights, other.weights):
            sums = [f"{one.at(full):g} + {other.at(full):g} = {one.at(full) + other.at(full):g}" for full in _LEVELS]
            notes.warn(
                position,
                f"{one.label} and {other.label} cancel each other out: a node that is {_EMPTIER:.0%} full scores "
                f"{sums[0]}, one that is {_FULLER:.0%} full {sums[1]}; change one of the weights",
            )


def _pull(plugin: Plugin, position: Position, notes: Notes) -> Pull | None:
    """A plugin's pull; None if it has none or if a third-party plugin fails to state it, which is only a warning."""
    try:
        pull = plugin.pull()
        if pull is None or not pull.slope:
            return None
        weights = {name: float(weight) for name, weight in pull.weights.items() if weight}
        return Pull(str(pull.label), float(pull.slope), float(pull.base), weights)
    except Exception as error:
        what = f"{plugin.name} does not say how it pulls pods together or apart: {failure(error)}"
        notes.warn(position, f"{what}; whether it cancels another plugin out is not known")
        return None


def _weigh_alike(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Whether two plugins weigh their common resources in the same proportion."""
    shared = [name for name in one if name in other]
    return bool(shared) and len({one[name] / other[name] for name in shared}) == 1
