"""A finding as one document: the picture that the page has, nothing from elsewhere, and every name as text."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

from agent.wire.units import HOUR_US
from analyzer.charts.figures import stacked_bars
from analyzer.findings.argue import Argument, Plot, RuledOut, Signal
from analyzer.findings.evidence import Need
from analyzer.findings.finding import Sign, finding_documents
from analyzer.findings.judgement import FindingHistory
from analyzer.interfaces.html import finding_html
from analyzer.reports.findings import Explained, finding_charts
from analyzer.text.templating import policy, scripts
from tests.analyzer.charts.without_scripts import without_scripts
from tests.analyzer.reports import example_week

TIMES = tuple(example_week.TUESDAY_8 + place * HOUR_US for place in range(8))
PLOT = Plot(
    "slurm/alpha/81234",
    "input starvation",
    TIMES,
    (50.0, 52.0, 48.0, 0.0, 51.0, 49.0, 50.0, 50.0),
    (40.0, 38.0, 44.0, 0.0, 41.0, 42.0, 40.0, 41.0),
    Signal("busiest worker", "% of a core", (97.0, 98.0, 96.0, None, 97.0, 98.0, 99.0, 97.0), 90.0),
)
ARGUMENT = Argument(
    (Sign("busiest loader worker", "98% of a core", "90% of a core or more", True),),
    (
        RuledOut("local disk", "10% busy, full is 80%"),
        RuledOut("checkpoints", "28.2 GPU-hours are booked as overhead", "overhead"),
        RuledOut("heat (f-c5j2)", "booked separately", "finding"),
    ),
    Need("the loader", 3_400_000_000, 5_800_000_000),
    "severe",
    PLOT,
    ("2026-11-01+1",),
)


def explained(subject: str = "llama-sft") -> Explained:
    """Return the example's finding of input starvation, with a plot."""
    finding = replace(example_week.findings()[2], subject=subject, hosts=("n14", "n15"))
    advice = tuple(one for one in example_week.recommendations() if finding.id in one.finding_ids)
    (document,) = finding_documents([finding], example_week.W46, "USD", FindingHistory())
    return Explained(example_week.W46, "USD", document, ARGUMENT, advice)


def test_the_document_reads_as_it_was_drawn(golden: Callable[[str, str], None]) -> None:
    """It is sent around: who opens it sees picture, numbers and what to do, without us."""
    golden("report/explain.html", without_scripts(finding_html(explained())))


def test_each_text_to_paste_is_a_box_of_its_own() -> None:
    """One Copy took a line of Python into the batch script."""
    (advice,) = explained().advice
    boxes = re.findall(r'<pre[^>]*aria-label="lines to paste[^>]*>([^<]*)</pre>', finding_html(explained()))
    assert len(boxes) == 2
    assert boxes == [each.text for each in advice.artefacts]


def test_the_document_loads_nothing_and_runs_nothing_but_its_charts() -> None:
    """A file in a mail must not tell anybody that it was opened; a name in it is its user's text."""
    page = finding_html(explained("<script>alert(1)</script>"))
    assert page.count("<script>") == 2, "plotly and draw.js, which the policy names by their hashes"
    own = page.replace(str(scripts()), "")
    assert policy() in page.replace("&#39;", "'")
    assert set(re.findall(r"<script[^>]*>", own)) == {
        '<script type="application/json" id="finding-1-data">',
        '<script type="application/json" id="finding-2-data">',
    }
    assert "&lt;script&gt;" in own
    assert not re.search(r"https?:|\bsrc=|\bhref=|@import|url\((?!#)", own)


def test_the_document_has_the_page_s_charts() -> None:
    """The same series and the same mark, each with its numbers below it."""
    page = finding_html(explained())
    for place, chart in enumerate(finding_charts(explained().finding, PLOT, "Europe/Berlin"), 1):
        block = re.search(rf'id="finding-{place}-data">(.*?)</script>', page)
        assert block is not None
        assert json.loads(block[1]) == json.loads(json.dumps(stacked_bars(chart)))
        assert chart.title in page.replace("&#39;", "'")
    assert page.count("data-chart=") == page.count("<summary>The numbers") == 2
