"""HTTP serving and the values of command-line flags."""
