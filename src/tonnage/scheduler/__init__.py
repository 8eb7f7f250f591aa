"""Scheduling cycles: which waiting pods are placed, in which order, and what the cycle says."""
