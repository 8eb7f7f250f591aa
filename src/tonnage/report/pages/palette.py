"""The palette of pages: colours for light and dark mode, and the styles of lines in plots.

Lines use the hues of Okabe and Ito, which people with colour vision deficiency can distinguish, with adjusted lightness
where the contrast to the page is low. From the seventh line on, colours repeat with another dash.
"""

COLOURS: dict[str, tuple[str, str]] = {
    "page": ("#ffffff", "#14171a"),
    "raised": ("#f5f6f7", "#1d2126"),
    "ink": ("#1b1f23", "#e7e9ea"),
    "quiet": ("#59626b", "#a3adb6"),
    "rule": ("#d9dde1", "#343b42"),
    "accent": ("#00568a", "#7cc4f0"),
    "line-0": ("#0072b2", "#3d95d6"),
    "line-1": ("#d55e00", "#f2762e"),
    "line-2": ("#009e73", "#22b890"),
    "line-3": ("#c3669a", "#d489b5"),
    "line-4": ("#6b3d00", "#f5dc6a"),
    "line-5": ("#2b3036", "#ffffff"),
    "heat-0": ("#e9edf0", "#262b31"),
    "heat-1": ("#c3dbec", "#17415c"),
    "heat-2": ("#8fbfdf", "#1f5c85"),
    "heat-3": ("#559dcb", "#2e7db3"),
    "heat-4": ("#2275ab", "#55a3d8"),
    "heat-5": ("#0b4872", "#a5d2f2"),
}
LINE_COLOURS = sum(name.startswith("line-") for name in COLOURS)
HEAT_STEPS = sum(name.startswith("heat-") for name in COLOURS)
DASHES = (None, "7 3", "2 3", "9 3 2 3")


def variables(scheme: int) -> str:
    """The CSS variables for light (0) or dark (1) mode."""
    return "".join(f"--{name}:{pair[scheme]};" for name, pair in COLOURS.items())


def both() -> str:
    """The CSS variables, following the page's colour scheme."""
    return "".join(f"--{name}:light-dark({light},{dark});" for name, (light, dark) in COLOURS.items())


def line_colour(number: int) -> str:
    """The colour of a plot's line, as CSS."""
    return f"var(--line-{number % LINE_COLOURS})"


def line_dash(number: int) -> str | None:
    """The dash of a plot's line; empty for a solid one."""
    return DASHES[number // LINE_COLOURS % len(DASHES)]


def heat(share: float) -> int:
    """The step on the scale from 0 to 1; only exactly 0 and exactly 1 have steps of their own."""
    if share <= 0.0005:
        return 0
    if share >= 0.9995:
        return HEAT_STEPS - 1
    return 1 + int(share * (HEAT_STEPS - 2))
