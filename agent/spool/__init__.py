"""A bounded queue of batches on disk: what was not yet delivered, and what was but is not yet safe at the collector."""

from agent.spool.queue import Spool, open_spool
from agent.spool.segment_store import SegmentStore

__all__ = ["SegmentStore", "Spool", "open_spool"]
