"""The registry's tables of alarms: which are open, which were said, what waits for the webhook. Microseconds UTC."""

from sqlalchemy import BigInteger, Boolean, Column, Integer, MetaData, String, Table

ALARM_VERSION = 6  # of the registry's schema

_METADATA = MetaData()

ALARMS = Table(
    "alarms",
    _METADATA,
    Column("id", String, primary_key=True),
    Column("opened_at", BigInteger, primary_key=True),
    Column("team", String),
    Column("urgent", Boolean),
    Column("said_at", BigInteger),
    Column("ended_at", BigInteger),
    Column("body", String),
)
POSTS = Table(
    "alarm_posts",
    _METADATA,
    Column("id", String, primary_key=True),
    Column("state", String),
    Column("made_at", BigInteger),
    Column("attempts", Integer),
    Column("next_at", BigInteger),
    Column("done_at", BigInteger),
    Column("told", String),
    Column("body", String),
)
STATEMENTS = (
    "CREATE TABLE {p}alarms (id VARCHAR NOT NULL, opened_at BIGINT NOT NULL, team VARCHAR, urgent BOOLEAN NOT NULL, "
    "said_at BIGINT, ended_at BIGINT, body VARCHAR NOT NULL, PRIMARY KEY (id, opened_at))",
    "CREATE UNIQUE INDEX alarms_lasting ON {p}alarms (id) WHERE ended_at IS NULL",
    "CREATE INDEX alarms_by_end ON {p}alarms (ended_at)",
    "CREATE TABLE {p}alarm_posts (id VARCHAR PRIMARY KEY, state VARCHAR NOT NULL, made_at BIGINT NOT NULL, "
    "attempts INTEGER NOT NULL, next_at BIGINT NOT NULL, done_at BIGINT, told VARCHAR NOT NULL, body VARCHAR)",
    "CREATE INDEX alarm_posts_by_state ON {p}alarm_posts (state, next_at)",
)
