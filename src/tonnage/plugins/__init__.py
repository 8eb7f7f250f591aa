"""Policies: one small file each, registered on a session."""
