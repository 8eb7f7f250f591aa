"""Figures of the agent: on a real kubelet, after faults, and over a day of pods."""
