"""The browser that this machine has."""

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find() -> str | None:
    """The first of the browsers that is installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def missing() -> str | None:
    """Why pages cannot be looked at; nothing if they can."""
    return None if find() else f"no browser is installed by any of the names {', '.join(NAMES)}"
