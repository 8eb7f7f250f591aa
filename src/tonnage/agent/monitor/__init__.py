"""The monitor: what containers use of their cards, feedback between them, and the folders of those that are gone."""
