"""The parts of a run's page: what they say of a real ledger."""

from analyzer.interfaces.text.run_text import run_text
from analyzer.reports.reader import Reader
from analyzer.reports.run import FINDINGS_SHOWN
from analyzer.settings.settings import Settings
from analyzer.text.layout import TextLayout
from dashboards.pages.run_page import run_part
from tests.analyzer.reports.test_run_head import RUNS, two_runs
from tests.analyzer.small_site import small_site


def test_a_runs_page_tells_what_its_gpus_drew() -> None:
    """It is no line of the head, which is there at once and looks at no samples."""
    with two_runs().store.session() as session:
        sections = dict(run_part(Reader(session, Settings()), "rest", RUNS[0])["sections"])  # type: ignore[call-overload]
    assert sections["Energy"] == [("drawn", "0.643 kWh at the GPUs")]


def test_a_runs_page_and_its_text_rule_out_the_same() -> None:
    """Who reads that it is the loader asks on either whether it is not the disk."""
    fleet = small_site()
    fleet.analyze()
    with fleet.store.session() as session:
        reader = Reader(session, Settings())
        runs = [finding.run_ids[0] for finding in reader.findings(reader.period(None)) if finding.state == "starved"]
        shown = run_part(reader, "findings", runs[0])["ruled_out"]
        text = " ".join(run_text(reader.run(runs[0]), TextLayout()).split())
    assert isinstance(shown, dict)
    assert 0 < len(shown) <= FINDINGS_SHOWN
    told = [words for each in shown.values() for words in each]
    assert told
    assert all(words in text for words in told)
