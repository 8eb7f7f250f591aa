"""Plugins: one file each, in a folder per family; `catalog` names them all."""
