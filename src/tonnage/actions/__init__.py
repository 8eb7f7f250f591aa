"""What a cycle does, one step after another; each file is one action."""
