"""Tonnage packs GPU pods onto the nodes and GPUs of a Kubernetes cluster, and says why."""

__version__ = "0.1.0"
