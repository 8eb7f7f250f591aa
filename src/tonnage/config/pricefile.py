"""The file of prices for plans, read strictly, with the place of every mistake."""

from tonnage.config.document import Form, read_document
from tonnage.config.notes import ConfigError, Notes, in_order
from tonnage.config.source import place_of, text_of_file
from tonnage.config.strict import read
from tonnage.manifests.written import TextError
from tonnage.model.duration import DurationError, seconds
from tonnage.plan.defrag.prices import Prices

FORM = Form("prices", "rates such as gpuHourLost", ("prices.yaml",))


def load_prices(path: str) -> Prices:
    """The prices in a file; ConfigError with the position of every mistake."""
    notes, found = Notes(), None
    try:
        root = read_document(text_of_file(path), path, notes, FORM)
        found = None if root is None else read(root, Prices, "prices", notes)
        fields = None if root is None else root.fields()
        for name, text in () if found is None else (("startUp", found.start_up), ("horizon", found.horizon)):
            try:
                seconds(text)
            except DurationError as error:
                notes.error(fields[name][1].position if fields and name in fields else None, f"{name}: {error}")
    except TextError as error:
        notes.error(place_of(error), error.message)
    if notes.errors or found is None:
        raise ConfigError(path, in_order(notes.errors), [])
    return found
