"""Invented clusters and workloads driven through the engine over virtual time."""
