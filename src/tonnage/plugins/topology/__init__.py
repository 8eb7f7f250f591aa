"""Plugins that keep the pods of a job close together."""
