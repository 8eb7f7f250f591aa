"""Certificates that a server makes for itself, keeps in a Secret and renews."""
