"""Actions that evict running pods so that others can start, and the search for victims."""
