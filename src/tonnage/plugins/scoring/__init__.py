"""Scoring plugins: how good each node is for a pod."""
