"""Arithmetic and look-ups that plugins of several families share."""
