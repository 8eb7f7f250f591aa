"""A live cluster: talking to its API server, and keeping the picture of it current."""
