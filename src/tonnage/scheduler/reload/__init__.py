"""Reload: configurations that change while the scheduler runs."""
