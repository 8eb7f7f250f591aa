"""Vendors' devices, one file per vendor: names, wire formats, admission, placement rules, configuration section."""
