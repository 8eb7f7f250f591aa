"""The text of a configuration, from a file or from bytes; what keeps it from being read is a ConfigError."""

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
    """The text in bytes of UTF-8 or UTF-16; `source` is how messages name them."""
    try:
        return as_text(as_utf8(data, source), source)
    except TextError as error:
        raise ConfigError(source, [Note(place_of(error), error.message)], []) from error
    except ManifestError as error:
        raise ConfigError(source, [Note(None, str(error).removeprefix(f"{source}: "))], []) from error


def place_of(error: TextError) -> Position | None:
    """Where a text cannot be read."""
    return Position(error.line, error.column or 1) if error.line else None
