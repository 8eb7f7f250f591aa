"""The model: Kubernetes objects as typed data, quantities, selection rules and problems."""
