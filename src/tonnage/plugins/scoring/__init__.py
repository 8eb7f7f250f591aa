"""Plugins that say how good a node is for a pod."""
