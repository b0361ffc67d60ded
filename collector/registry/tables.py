"""The registry's tables as statements name them; versions.py makes them. Times are integer microseconds UTC."""

from sqlalchemy import BigInteger, Boolean, Column, Integer, MetaData, String, Table

NOBODY = -1  # the owner of a stream that was given back

_METADATA = MetaData()

COLLECTORS = Table(
    "collectors",
    _METADATA,
    Column("number", Integer, primary_key=True),
    Column("name", String),
    Column("url", String),
    Column("identity", String),
    Column("claimed_at", BigInteger),
    Column("alive_until", BigInteger),
)
LEASES = Table(
    "leases",
    _METADATA,
    Column("stream", String, primary_key=True),
    Column("collector", Integer),
    Column("epoch", BigInteger),
    Column("since", BigInteger),
)
KEYS = Table(
    "keys",
    _METADATA,
    Column("id", String, primary_key=True),
    Column("role", String),
    Column("name", String),
    Column("hash", String),
    Column("node", String),
    Column("teams", String),
    Column("created_at", BigInteger),
    Column("created_by", String),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("used_at", BigInteger),
    Column("replaces", String),
    Column("joined_by", String),
    Column("change", BigInteger),
)
JOINS = Table(
    "joins",
    _METADATA,
    Column("id", String, primary_key=True),
    Column("hash", String),
    Column("node_glob", String),
    Column("uses", BigInteger),
    Column("used", BigInteger),
    Column("replaces", Boolean),
    Column("created_at", BigInteger),
    Column("created_by", String),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
)
COUNTERS = Table("counters", _METADATA, Column("name", String, primary_key=True), Column("value", BigInteger))
AUDIT = Table(
    "audit",
    _METADATA,
    Column("id", BigInteger, primary_key=True),
    Column("at", BigInteger),
    Column("kind", String),
    Column("actor", String),
    Column("action", String),
    Column("subject", String),
    Column("detail", String),
    Column("count", BigInteger),
)
GPU_HOMES = Table(
    "gpu_homes",
    _METADATA,
    Column("gpu_uuid", String, primary_key=True),
    Column("node", String),
    Column("told_at", BigInteger),
)
HOSTS = Table("hosts", _METADATA, Column("node", String, primary_key=True), Column("first_sent_at", BigInteger))
CAPACITY_REQUESTS = Table(
    "capacity_requests",
    _METADATA,
    Column("id", String, primary_key=True),
    Column("digest", String),
    Column("team", String),
    Column("pilot", Boolean),
    Column("verdict", String),
    Column("asked_at", BigInteger),
    Column("asked_by", String),
)
CAPACITY_EVENTS = Table(
    "capacity_events",
    _METADATA,
    Column("number", BigInteger, primary_key=True),
    Column("request_id", String),
    Column("at", BigInteger),
    Column("kind", String),
    Column("who", String),
    Column("role", String),
    Column("verdict", String),
    Column("gate", String),
    Column("reason", String),
    Column("decided", String),
)
