"""Helpers that plugins of several families share."""
