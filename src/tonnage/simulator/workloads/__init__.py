"""Invented workloads: out of a seed, or described in a file."""
