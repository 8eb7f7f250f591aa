"""Metrics, Events and logs of the servers."""
