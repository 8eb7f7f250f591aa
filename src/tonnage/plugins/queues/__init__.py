"""Plugins that give queues their shares."""
