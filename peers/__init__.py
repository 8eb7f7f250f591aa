"""Comparisons with the peers' own programs: HAMi, Volcano and KAI, each given by path."""
