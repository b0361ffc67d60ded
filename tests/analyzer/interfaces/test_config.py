"""The analyzer's settings: what is wrong is said in one sentence, before anything is analysed."""

from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.interfaces.alarms.settings import AlarmSettings
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.prices.price_book import price_book
from analyzer.settings.settings import TABLES, Settings
from collector.config import load
from collector.errors import ConfigError as CollectorConfigError


def file(path: Path, text: str) -> Path:
    """Write a settings file."""
    made = path / "gpuledger.toml"
    made.write_text(text)
    return made


def test_without_a_file_the_defaults_hold() -> None:
    """One site starts without a word of configuration."""
    assert Settings.read(None, {}) == Settings()


def test_the_file_is_read_and_its_paths_lie_beside_it(tmp_path: Path) -> None:
    """A daemon's working directory is no place to look for prices."""
    read = Settings.read(file(tmp_path, '[analyzer]\ncluster = "alpha"\nprices = "p.toml"\nthreads = 1\n'), {})
    assert (read.cluster, read.prices, read.threads) == ("alpha", tmp_path / "p.toml", 1)


def test_the_environment_goes_over_the_file(tmp_path: Path) -> None:
    """A container is set by variables."""
    path = file(tmp_path, '[analyzer]\ncluster = "alpha"\nthreads = 1\n')
    given = {"GPULEDGER_ANALYZER_CLUSTER": "beta", "GPULEDGER_ANALYZER_THREADS": "3", "GPULEDGER_AGENT_NODE": "n1"}
    read = Settings.read(path, given)
    assert (read.cluster, read.threads) == ("beta", 3)


def test_the_tables_of_other_daemons_are_passed_over(tmp_path: Path) -> None:
    """One file serves all of them, and each reads its own table."""
    assert Settings.read(file(tmp_path, '[agent]\nnode = "n1"\n[collector]\nlisten = "x"\n'), {}) == Settings()


def test_an_unknown_key_is_named_with_the_nearest(tmp_path: Path) -> None:
    """A slip of the pen that is passed over leaves the default in force, unseen."""
    with pytest.raises(ConfigError, match="unknown key 'timezon'; did you mean 'timezone'"):
        Settings.read(file(tmp_path, '[analyzer]\ntimezon = "UTC"\n'), {})
    with pytest.raises(ConfigError, match="unknown key 'analyser'; did you mean 'analyzer'"):
        Settings.read(file(tmp_path, "[analyser]\n"), {})


def test_an_unknown_variable_is_named_with_the_nearest() -> None:
    """The same slip of the pen, in a container."""
    with pytest.raises(ConfigError, match=r"GPULEDGER_ANALYZER_TIMEZON is not a setting.*TIMEZONE"):
        Settings.read(None, {"GPULEDGER_ANALYZER_TIMEZON": "UTC"})


@pytest.mark.parametrize(
    "url",
    ["gpuledger.example", "https://x y", "javascript:alert(1)", "https://a.example/?a=b", "http://[::1", "https://"],
)
def test_a_bad_address_of_the_site_is_one_sentence(url: str) -> None:
    """It goes into mails and chats, where nobody can mend it."""
    with pytest.raises(ConfigError, match="site_url is "):
        Settings(site_url=url)


def test_the_address_of_the_site_ends_without_a_slash() -> None:
    """Paths are added to it."""
    assert Settings(site_url="https://a.example/gpus/").site_url == "https://a.example/gpus"


@pytest.mark.parametrize("of", [MailSettings, AlarmSettings])
def test_an_old_name_of_the_site_s_address_names_the_new_one(
    tmp_path: Path, of: type[MailSettings] | type[AlarmSettings]
) -> None:
    """It was three settings once: who changes two of them sends mails whose links lead nowhere."""
    table = "mail" if of is MailSettings else "alarms"
    path = file(tmp_path, f'[{table}]\nbase_url = "https://a.example"\n')
    for where, around in ((path, {}), (None, {f"GPULEDGER_{table.upper()}_BASE_URL": "https://a.example"})):
        with pytest.raises(ConfigError, match=rf"\[{table}\] base_url is no longer a setting: use site_url of"):
            of.read(where, TABLES, around)


def test_the_collector_names_both_that_its_old_address_was() -> None:
    """Agents were sent to it, and cookies followed it."""
    with pytest.raises(CollectorConfigError, match=r"analyzer.site_url.*collector.direct_url"):
        load(None, {"GPULEDGER_COLLECTOR_PUBLIC_URL": "https://a.example"})


@pytest.mark.parametrize("zone", ["Europe/Berln", "", "../../etc/passwd", "/etc/localtime", "CET CEST"])
def test_a_bad_timezone_is_one_sentence(zone: str) -> None:
    """Whatever the library raises for it."""
    with pytest.raises(ConfigError, match="is not known; write one such as Europe/Berlin") as caught:
        Settings(timezone=zone)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("THREADS", "two", "must be a whole number, not 'two'"),
        ("THREADS", "\u00b2", "must be a whole number"),
        ("THREADS", "0", "threads must be 1 or more, not 0"),
        ("FIRST_WEEKDAY", "someday", "first_weekday 'someday' is not a weekday; write one such as monday"),
    ],
)
def test_a_bad_value_is_one_sentence(variable: str, value: str, said: str) -> None:
    """It names the value and the way out, and no traceback is shown."""
    with pytest.raises(ConfigError, match=said):
        Settings.read(None, {f"GPULEDGER_ANALYZER_{variable}": value})


@pytest.mark.parametrize(
    "text", ["[analyzer]\nthreads = -1\n", "[analyzer]\nthreads = true\n", "analyzer = 3\n", "[[["]
)
def test_a_broken_file_is_refused(tmp_path: Path, text: str) -> None:
    """Startup fails loudly."""
    with pytest.raises(ConfigError, match=r"gpuledger\.toml"):
        Settings.read(file(tmp_path, text), {})


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A path that was named is meant."""
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere\.toml"):
        Settings.read(tmp_path / "nowhere.toml", {})


def test_prices_in_another_currency_are_refused(tmp_path: Path) -> None:
    """The ledger adds up one currency only."""
    (tmp_path / "prices.toml").write_text('currency = "EUR"\n')
    with pytest.raises(ConfigError, match="is in EUR, the ledger in USD"):
        price_book(Settings(prices=tmp_path / "prices.toml"))


def test_a_stores_settings_lie_beside_it(tmp_path: Path) -> None:
    """A store that is carried elsewhere keeps its time zone."""
    file(tmp_path, '[analyzer]\ntimezone = "Europe/Berlin"\n')
    assert Settings.beside(tmp_path / "store.duckdb", {}).timezone == "Europe/Berlin"
    assert Settings.beside(tmp_path / "elsewhere" / "store.duckdb", {}) == Settings()


def test_the_guards_have_a_table_of_their_own(tmp_path: Path) -> None:
    """What keeps recommendations from doing harm is a site's to set, in the file or by variables over it."""
    path = file(tmp_path, "[placement]\nmoved_percent = 20\nvalid_days = 3\n")
    guards = Settings.read(path, {"GPULEDGER_PLACEMENT_VALID_DAYS": "7"}).guards
    assert (guards.moved_percent, guards.valid_days, guards.rejected_hours) == (20, 7, 24)


def test_the_same_table_says_how_recommendations_are_made(tmp_path: Path) -> None:
    """How long a plan may take, and whether realised savings are learned from; neither is a guard."""
    path = file(tmp_path, "[placement]\nplan_seconds = 3\nlearn_shares = true\nvalid_days = 3\n")
    read = Settings.read(path, {"GPULEDGER_PLACEMENT_PLAN_SECONDS": "0"})
    assert (read.advising.plan_seconds, read.advising.learn_shares, read.guards.valid_days) == (0, True, 3)
    off = Settings.read(path, {"GPULEDGER_PLACEMENT_LEARN_SHARES": "false"})
    assert (off.advising.plan_seconds, off.advising.learn_shares) == (3, False)


@pytest.mark.parametrize(
    ("text", "environ", "said"),
    [
        ("moved_percents = 5", {}, "did you mean 'moved_percent'"),
        ("moved_percent = 101", {}, "must be no more than 100 percent"),
        ("valid_days = -1", {}, "must be a whole number"),
        ("", {"GPULEDGER_PLACEMENT_VALID_DAY": "3"}, "the nearest is GPULEDGER_PLACEMENT_VALID_DAYS"),
        ("", {"GPULEDGER_PLACEMENT_VALID_DAYS": "soon"}, "must be a whole number"),
        ("learn_shares = 1", {}, "'learn_shares' must be true or false, not 1"),
        ("", {"GPULEDGER_PLACEMENT_LEARN_SHARES": "yes"}, "must be true or false, not 'yes'"),
    ],
)
def test_a_wrong_guard_is_refused(tmp_path: Path, text: str, environ: dict[str, str], said: str) -> None:
    """A guard that was mistyped would guard nothing."""
    with pytest.raises(ConfigError, match=said):
        Settings.read(file(tmp_path, f"[placement]\n{text}\n"), environ)
