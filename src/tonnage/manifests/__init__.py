"""Kubernetes objects read from files as kubectl prints them."""
