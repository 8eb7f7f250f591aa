"""Observability: metrics, Events, log lines, the recorder and messages of both servers."""
