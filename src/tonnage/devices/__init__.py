"""Vendors' devices: names, wire formats, admission rules and placement quirks, one file per vendor."""
