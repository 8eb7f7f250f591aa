"""Configurations that change while the scheduler runs."""
