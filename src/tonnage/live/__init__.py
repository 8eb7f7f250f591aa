"""A live cluster for commands that look and never write: listed once, or followed while a command runs."""
