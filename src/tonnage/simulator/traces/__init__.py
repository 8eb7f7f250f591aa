"""Recorded traces as comma-separated values."""
