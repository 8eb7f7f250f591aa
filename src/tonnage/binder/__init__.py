"""The binder: Bindings, the hand-over to device plugins, node locks, preflight and overlaps."""
