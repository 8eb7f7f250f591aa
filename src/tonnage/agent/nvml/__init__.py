"""The node's cards through NVML, or invented ones."""
