"""Typed data: Kubernetes objects as Tonnage reads them, quantities, selection rules, problems."""
