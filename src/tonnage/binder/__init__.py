"""The binder: writes Bindings, hands pods over to device plugins, and notices overlaps."""
