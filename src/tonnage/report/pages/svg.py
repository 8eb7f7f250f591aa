"""SVG elements with escaped attributes and text."""

from collections.abc import Iterable

from markupsafe import Markup, escape


def element(name: str, *children: str, **attributes: object) -> Markup:
    """An element; `class_` and `stroke_width` stand for `class` and `stroke-width`, and None omits one."""
    written = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _value(value))
        for key, value in attributes.items()
        if value is not None
    )
    if not children:
        return Markup("<{}{}/>").format(Markup(name), written)
    inside = Markup("").join(escape(child) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), written, inside)


def _value(value: object) -> str:
    return short(value) if isinstance(value, float) else str(value)


def short(value: float) -> str:
    """A coordinate, to a tenth of a unit."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def polyline(points: Iterable[tuple[float, float]]) -> str:
    """The path through points."""
    return "M" + "L".join(f"{short(x)} {short(y)}" for x, y in points)
