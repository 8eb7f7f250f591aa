"""Plugins that choose the cards of a node and keep them within their limits."""
