"""A model that is fitted to the series: the only importer of statsforecast (extra `forecast`)."""

from collections.abc import Sequence

from analyzer.finops.forecast.season import WEEK_DAYS


def fitted(history: Sequence[int], days: int) -> list[int]:
    """Return what MSTL with AutoETS makes of a daily series that has weeks in it; no amount is below 0."""
    import numpy
    from statsforecast.models import MSTL, AutoETS

    model = MSTL(season_length=WEEK_DAYS, trend_forecaster=AutoETS(model="ZZN"))
    mean = model.forecast(y=numpy.asarray(history, dtype=float), h=days)["mean"]
    return [max(0, round(float(amount))) for amount in mean]
