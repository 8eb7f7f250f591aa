"""The source text of a configuration, from a file or from bytes; ConfigError if it cannot be read."""

from tonnage.config.notes import ConfigError, Note, Position
from tonnage.manifests.content import as_text, as_utf8, file_content
from tonnage.manifests.written import ManifestError, TextError


def text_of_file(path: str) -> str:
    """The text in a file."""
    try:
        data = file_content(path)
    except ManifestError as error:
        message = str(error).removeprefix(path).lstrip(": ")
        raise ConfigError(path, [Note(None, message)], []) from error
    return text_of(data, path)


def text_of(data: bytes, source: str) -> str:
    """The text in bytes of UTF-8 or UTF-16; messages name them by `source`."""
    try:
        return as_text(as_utf8(data, source), source)
    except TextError as error:
        raise ConfigError(source, [Note(place_of(error), error.message)], []) from error
    except ManifestError as error:
        raise ConfigError(source, [Note(None, str(error).removeprefix(f"{source}: "))], []) from error


def place_of(error: TextError) -> Position | None:
    """The position at which a text cannot be read; None if it is not known."""
    return Position(error.line, error.column or 1) if error.line else None
