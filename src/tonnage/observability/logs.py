"""The log: one JSON object per line on standard error, for every module.

It is the standard library's logging with another formatter: uvicorn logs through it already, and a line costs
no more than with a library made for JSON logs.
"""

import logging
import sys
from datetime import UTC, datetime

from tonnage.model.excerpt import bounded
from tonnage.model.wire import encode

_LONGEST = 8192
"""The longest text in a line, in characters."""
FIELDS = "fields"
"""The key in `extra` under which a line has its data."""


class JsonLines(logging.Formatter):
    """Time, level, logger and event, then the fields of the line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= getattr(record, FIELDS, {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # JSON writes line breaks out, so nobody's text becomes a line of its own; this bounds its length.
        for name, value in line.items():
            if isinstance(value, str) and len(value) > _LONGEST:
                line[name] = bounded(value, _LONGEST)
        return encode(line).decode()


def log_to_stderr(debug: bool = False) -> None:
    """Log in JSON from now on."""
    # Lines do not say in which line of code, thread or process they were made, so nobody has to find out.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if debug else logging.INFO, force=True)
    for chatty in ("uvicorn", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
