"""The cluster state: nodes, devices and pods as columns, kept current by events."""
