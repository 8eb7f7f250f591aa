"""A control plane of its own for a test that installs into it."""

from tests.e2e.conftest import fresh_control_plane

__all__ = ["fresh_control_plane"]
