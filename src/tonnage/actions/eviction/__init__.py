"""Actions that stop running pods so that others can start."""
