"""Owners of pods: objects whose controllers make them, one module per kind."""
