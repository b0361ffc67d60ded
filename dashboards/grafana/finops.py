"""Money: what the fleet costs and what of it was avoidable, by team; the month's budgets; faults of prices."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards.grafana.board import Panels, board, chosen, filled, page_link, pages
from dashboards.grafana.findings_table import dearest_findings
from dashboards.grafana.panels import RED, YELLOW, Query, bars, lines, stat, table
from dashboards.grafana.queries import CLUSTER, ledger, share

_STATES = ("class", "state", "cause")
_WEEK = ledger("week_cost_usd", *_STATES)
_WEEK_AVOIDABLE = ledger("week_cost_usd", *_STATES, where='class="avoidable"')
_OF_TEAM = 'team=~"$team"'
_OF_FLEET = 'scope="fleet"'


def finops() -> Dashboard:
    """Return the dashboard."""
    variables = [
        chosen("cluster", "Cluster", "label_values(gpuledger_fleet_info, cluster)"),
        chosen("team", "Team", f"label_values(gpuledger_fleet_team_week_cost_usd{{{CLUSTER}}}, team)"),
        pages(),
    ]
    made = board("gpuledger-finops", "gpuledger / FinOps", __doc__ or "", "now-30d", variables)
    made.link(page_link("Money in gpuledger", "${pages}/money"))
    rows = [
        ("This week and this month", _now()),
        ("Where money goes", _spent()),
        ("Budgets", _budgets()),
        ("What could be saved", _saved()),
    ]
    return filled(made, rows)


def _now() -> Panels:
    return (
        stat("Week so far", "What the week cost so far.", "currencyUSD", f"sum({_WEEK})"),
        stat(
            "Avoidable this week",
            "Share of the week's cost that is booked to avoidable states.",
            "percentunit",
            share(_WEEK_AVOIDABLE, _WEEK),
            limits=((0.1, YELLOW), (0.2, RED)),
        ),
        stat(
            "Month so far",
            "What the fleet cost this month so far, by the site's clock.",
            "currencyUSD",
            f"sum({ledger('month_spent_usd', 'bearer', where=_OF_FLEET)})",
        ),
        stat(
            "Month-end",
            "What the fleet will have cost this month: what is spent, and a forecast of the days that are left.",
            "currencyUSD",
            f"sum({ledger('month_expected_usd', 'bearer', where=_OF_FLEET)})",
        ),
        stat(
            "GPUs without a price",
            "GPUs of the last complete hour that are in no cost. gpuledger bill prices check names their kinds.",
            "none",
            f"sum({ledger('unpriced_gpus')})",
            limits=((1, YELLOW),),
        ),
        stat(
            "Faults of the price book",
            "Prices that are missing, stale, over, with gaps, or far from every list price. gpuledger bill "
            "prices check "
            "names them and what to ask.",
            "none",
            f"sum({ledger('price_faults', 'kind')})",
            limits=((1, YELLOW), (10, RED)),
        ),
    )


def _spent() -> Panels:
    of_teams = ledger("team_week_cost_usd", "team", "class", where=_OF_TEAM)
    return (
        lines(
            "Cost an hour, by class",
            "What each class of time costs. The classes sum to the price of what is owned.",
            "currencyUSD",
            Query(f"sum by (class) ({ledger('hour_cost_usd', *_STATES)})", "{{class}}"),
            stacked=True,
        ),
        bars(
            "Week so far, by team",
            "What runs cost this week: of the teams that cost most, of all others, and what nobody held.",
            "currencyUSD",
            Query(f"sort_desc(sum by (team) ({of_teams}))", "{{team}}"),
        ),
        table(
            "Week so far, by state",
            "What each state of the ledger cost this week, and how much GPU time it took.",
            "currencyUSD",
            {"class": "Class", "state": "State", "cause": "Cause", "Value": "Cost"},
            f"sort_desc({_WEEK})",
        ),
        lines(
            "Avoidable cost an hour, by team",
            "What the teams that lost most could have saved in each hour, by state.",
            "currencyUSD",
            Query(
                ledger("team_avoidable_hour_cost_usd", "team", "state", where=_OF_TEAM),
                "{{team}}: {{state}}",
            ),
            stacked=True,
        ),
    )


def _budgets() -> Panels:
    bearer = ("bearer", "scope")
    spent, allowed = ledger("month_spent_usd", *bearer), ledger("month_budget_usd", *bearer)
    start, end = ledger("month_timestamp_seconds"), ledger("month_end_timestamp_seconds")
    columns = {
        "bearer": "Who",
        "scope": "Kind",
        "Value #A": "Budget",
        "Value #B": "Spent",
        "Value #C": "Month-end",
        "Value #D": "At most, 9 of 10",
    }
    high = ledger("month_expected_high_usd", *bearer)
    return (
        bars(
            "Spent of the budget",
            "Share of the month's budget that is spent. Compare it with how much of the month is over.",
            "percentunit",
            Query(f"sort_desc({spent} / {allowed})", "{{bearer}}"),
            limits=((0.8, YELLOW), (1, RED)),
            width=10,
        ),
        stat(
            "Month that is over",
            "Share of the month that is over, by the newest hour of the ledger.",
            "percentunit",
            f"({ledger('known_until_timestamp_seconds')} - {start}) / ({end} - {start})",
            width=4,
        ),
        table(
            "Budgets and where the month will end",
            "Budgets of the month, what is spent, and the forecast. Who has no budget has an empty cell.",
            "currencyUSD",
            columns,
            allowed,
            spent,
            ledger("month_expected_usd", *bearer),
            high,
            width=10,
        ),
    )


def _saved() -> Panels:
    return (
        dearest_findings(),
        bars(
            "Open findings by kind",
            "Money of this week in findings that are still open, by what was found.",
            "currencyUSD",
            Query(
                f"sort_desc(sum by (kind) ({ledger('open_findings_at_stake_usd', 'kind', 'confidence')}))", "{{kind}}"
            ),
        ),
    )
