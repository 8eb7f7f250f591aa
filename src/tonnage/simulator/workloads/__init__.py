"""Synthetic workloads, drawn from a seed or described in a file."""
