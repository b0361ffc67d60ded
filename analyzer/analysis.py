"""The pass of the analysis: the ledger is booked, closed for finance, and its findings are kept."""

from dataclasses import replace

from analyzer.findings.judgement import keep_rule_versions
from analyzer.findings.life import keep_findings
from analyzer.finops.charges.closing import Terms, close_runs, close_terms, terms_version
from analyzer.finops.non_gpu_costs.energy import non_gpu_rates
from analyzer.ledger.amounts import book_amounts, find_due_amounts
from analyzer.ledger.booking import Analysis, Progress, Rules, book_all, reprice
from analyzer.ledger.causes.serving_policy import find_services, policy_book
from analyzer.ledger.pending import (
    Versions,
    close_hours,
    find_due,
    first_judgeable,
    know_fleet,
    oldest_mark,
    settle_hours,
)
from analyzer.ledger.run_facts import write_runs, write_stages
from analyzer.ledger.teams import model_book, team_book
from analyzer.ledger.thresholds import Thresholds
from analyzer.period import WINDOW_MS
from analyzer.prices.price_book import price_book
from analyzer.queries.statements import run as run_sql
from analyzer.settings.settings import Settings
from collector.errors import StoreError, TakenError
from collector.lake.damage import with_damage
from collector.store.books import take_up
from collector.store.database import Store


def analyze(
    store: Store,
    settings: Settings,
    *,
    now_us: int,
    made_at_us: int | None = None,
    limits: Thresholds | None = None,
    bucket_ms: int = WINDOW_MS,
    progress: Progress | None = None,
) -> Analysis:
    """Bring the ledger up to date with everything the store knows, and return what was done.

    `now_us` is the caller's clock: it decides which hours are closed, never what is in them. `made_at_us` is when the
    pass is made, where that is another time: an import of history closes nothing. `bucket_ms` is how finely
    the runs' timelines are kept. A pass that is cut off loses nothing: the next makes its hours anew.

    Raises:
        TakenError: another analyzer has booked meanwhile.
        StoreError: the store cannot be read; where files of the lake are damaged, the message names them.
    """
    try:
        return _analyze(store, settings, now_us, made_at_us, limits, bucket_ms, progress)
    except TakenError:
        raise
    except StoreError as error:
        raise with_damage(store, error) from error


def _analyze(
    store: Store,
    settings: Settings,
    now_us: int,
    made_at_us: int | None,
    limits: Thresholds | None,
    bucket_ms: int,
    progress: Progress | None,
) -> Analysis:
    policies = policy_book(settings)
    limits, book = limits or Thresholds(), price_book(settings)
    versions = Versions(policies.rules_version(limits.version), book.version)
    rules = Rules(settings, limits, book, bucket_ms, now_us, versions)
    teams = team_book(settings)
    take_up(store)  # where another analyzer has booked into the lake, go on from what it booked
    with store.session() as session:
        with session.transaction():  # of one catalogue too, which each statement by itself would ask anew
            up_to_batches = know_fleet(session, rules.limits)
            close_hours(session, settings.calendar, now_us, provisional=False)
            close_runs(session)
            facts = write_runs(session, teams, model_book(settings))
            services = find_services(session, policies)
            find_due(session, rules.versions, rules.limits)
            find_due_amounts(session, oldest_mark(session))
        done = book_all(session, facts, services, rules, progress)
        made_at = now_us if made_at_us is None else made_at_us
        repriced = reprice(session, rules.book, rules.versions, first_judgeable(session), now_us)
        book_amounts(session, made_at)
        with session.transaction():
            close_hours(session, settings.calendar, now_us, provisional=True)
            write_stages(session)
            run_sql(session, "ledger/sighted_keep.sql")
            settle_hours(session)
            session.execute("DELETE FROM analysis")
            session.load("analysis", ("analysed_batch", "analysed_at"), [[b, made_at] for b in up_to_batches])
            keep_rule_versions(session, rules.versions.rules, rules.limits)
        terms = Terms(
            rates=rules.book.charges,
            version=terms_version(settings, teams, rules.book),
            rules=rules.versions.rules,
            prices=rules.versions.prices,
            beside=non_gpu_rates(settings, rules.book),
        )
        moved = close_terms(session, terms, now_us)
        keep_findings(session, rules.versions)
    return replace(done, adjustments=done.adjustments + repriced + moved)
