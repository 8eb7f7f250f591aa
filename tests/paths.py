"""Paths of the checkout, and of the peers' data that may lie beside it."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
"""What projects share and none of them holds: peers' test cases, recorded traces."""
KAI_CASES = SHARED / "vectors" / "kai_cases.json"
OPENB = SHARED / "data" / "openb"
PEERS = "TONNAGE_PEERS"
"""The environment variable that names the folder with the peers' programs."""
