"""Plugins that keep pods off nodes."""
