"""The plan of `tonnage plan defrag`: which pods to move where, in which order, at what price, for what gain."""
