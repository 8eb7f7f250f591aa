"""Manifests: Kubernetes objects in files as kubectl prints them."""
