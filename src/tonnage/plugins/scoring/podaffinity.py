"""KAI's podaffinity: preferred pod affinity outweighs almost every other score."""

from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.scoring._podpreferences import PodAffinityScore, add_part

WEIGHT = 1_000_000.0
"""KAI keeps its scores apart by powers of ten."""


class PreferredPodAffinity(Plugin, trusted=True):
    """Orders nodes by the preferred pod affinity and anti-affinity of pods that have any."""

    name = "podaffinity"

    def on_session_open(self, session: Session) -> None:
        add_part(session, PodAffinityScore(session.cluster, own_only=True), WEIGHT)
