"""Times as Kubernetes writes them."""

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    """A number of seconds since 1970, without their fraction."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
