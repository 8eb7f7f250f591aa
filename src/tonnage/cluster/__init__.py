"""The picture of the world: nodes, devices and pods as columns, kept current by events."""
