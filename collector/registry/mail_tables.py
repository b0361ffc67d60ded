"""The registry's tables of mails: who has stopped them, what was sent, what waits. Times are microseconds UTC."""

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table

MAIL_VERSION = 3  # of the registry's schema; version 2 is another part's, and the order does not matter

_METADATA = MetaData()

SECRETS = Table("mail_secrets", _METADATA, Column("name", String, primary_key=True), Column("value", String))
SUBSCRIPTIONS = Table(
    "mail_subscriptions",
    _METADATA,
    Column("id", String, primary_key=True),
    Column("list", String),
    Column("address", String),
    Column("created_at", BigInteger),
    Column("stopped_at", BigInteger),
    Column("stopped_by", String),
)
SENDS = Table(
    "mail_sends",
    _METADATA,
    Column("subscription", String, primary_key=True),
    Column("period", String, primary_key=True),
    Column("state", String),
    Column("period_end", BigInteger),
    Column("made_at", BigInteger),
    Column("attempts", Integer),
    Column("lost", Integer),
    Column("next_at", BigInteger),
    Column("claimed_at", BigInteger),
    Column("done_at", BigInteger),
    Column("told", String),
    Column("body", String),
)
STATEMENTS = (
    "CREATE TABLE {p}mail_secrets (name VARCHAR PRIMARY KEY, value VARCHAR NOT NULL)",
    "CREATE TABLE {p}mail_subscriptions (id VARCHAR PRIMARY KEY, list VARCHAR NOT NULL, address VARCHAR NOT NULL, "
    "created_at BIGINT NOT NULL, stopped_at BIGINT, stopped_by VARCHAR, UNIQUE (list, address))",
    "CREATE TABLE {p}mail_sends (subscription VARCHAR NOT NULL, period VARCHAR NOT NULL, state VARCHAR NOT NULL, "
    "period_end BIGINT NOT NULL, made_at BIGINT NOT NULL, attempts INTEGER NOT NULL, lost INTEGER NOT NULL, "
    "next_at BIGINT NOT NULL, claimed_at BIGINT, done_at BIGINT, told VARCHAR NOT NULL, body VARCHAR, "
    "PRIMARY KEY (subscription, period))",
    "CREATE INDEX mail_sends_by_state ON {p}mail_sends (state, next_at)",
)
