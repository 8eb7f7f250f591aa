"""Plugins about jobs and the order of their pods."""
