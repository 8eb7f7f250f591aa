"""The schedulers that clusters can move over from."""

from tonnage.migrate.batchschedulers import KAI, VOLCANO
from tonnage.migrate.hami import HAMI

PEERS = {peer.name: peer for peer in (HAMI, VOLCANO, KAI)}
