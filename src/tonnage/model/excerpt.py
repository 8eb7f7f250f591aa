"""The excerpt of a text that somebody else wrote: short, on one line, for messages, Events and logs."""

LONGEST_EXCERPT = 200
"""In characters: a name or value in a sentence."""
_MARK = "…"
_CONTROLS = (*range(32), *range(127, 160))
_LINES_AND_DIRECTIONS = (*range(0x2028, 0x202F), *range(0x2066, 0x206A))
_ESCAPED = {
    **{number: f"\\x{number:02x}" for number in _CONTROLS},
    **{number: f"\\u{number:04x}" for number in _LINES_AND_DIRECTIONS},
    **{ord(mark): repr(mark)[1:-1] for mark in "\n\r\t"},
}
"""Control characters, further ends of lines, and marks that turn the direction of writing."""


def excerpt(text: str, most: int = LONGEST_EXCERPT) -> str:
    """The text on one line; of a long one the beginning and the end."""
    return one_line(bounded(text, most))


def bounded(text: str, most: int) -> str:
    """Of a text with more characters, the beginning and the end."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail - 1]}{_MARK}{text[-tail:]}"


def one_line(text: str) -> str:
    """The text with its control characters written out."""
    return text if text.isascii() and text.isprintable() else text.translate(_ESCAPED)


def quoted(text: str, most: int = 40) -> str:
    """A value in quotation marks on one line; of a long one the beginning."""
    return repr(text if len(text) <= most else text[: most - 3] + "...")
