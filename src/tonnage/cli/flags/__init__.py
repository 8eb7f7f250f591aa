"""Flags that several commands have, one module per family."""
