"""What holds for every model: more never needs less, spreading never needs more, and the parts are the whole."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from analyzer.sizing.memory import memory
from analyzer.sizing.model import Model
from analyzer.sizing.shape import Shape
from analyzer.sizing.work import MOMENT_BYTES, PURPOSES, RECOMPUTES, Sharding, Work, work_of


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Return a shape whose heads divide its width."""
    width, heads = draw(st.sampled_from([32, 64, 128])), draw(st.sampled_from([4, 8, 12, 40, 64]))
    experts = draw(st.sampled_from([1, 8]))
    return Shape(
        layers=draw(st.integers(1, 100)),
        hidden=width * heads,
        heads=heads,
        key_value_heads=draw(st.sampled_from([one for one in (1, 2, 4, 8, heads) if heads % one == 0])),
        head_width=width,
        intermediate=draw(st.integers(64, 30_000)),
        vocabulary=draw(st.integers(100, 200_000)),
        is_gated=draw(st.booleans()),
        has_dropout=draw(st.booleans()),
        is_tied=draw(st.booleans()),
        has_query_bias=draw(st.booleans()),
        experts=experts,
        experts_active=min(2, experts),
    )


@st.composite
def works(draw: st.DrawFn) -> Work:
    """Return any work that is allowed."""
    purpose = draw(st.sampled_from(PURPOSES))
    allowed = {"full": ["bf16", "fp32"], "qlora": ["nf4", "int8"]}.get(purpose, ["fp32", "bf16", "fp8", "int4", "nf4"])
    return work_of(
        purpose,
        draw(st.sampled_from(allowed)),
        draw(st.sampled_from([None, "fp8"])),
        optimizer=draw(st.sampled_from(sorted(MOMENT_BYTES))),
        batch=draw(st.integers(1, 16)),
        context=draw(st.integers(1, 20_000)),
        sequences=draw(st.integers(1, 64)),
        recompute=draw(st.sampled_from(RECOMPUTES)),
        rank=draw(st.integers(1, 128)),
    )


@st.composite
def shardings(draw: st.DrawFn, shape: Shape) -> Sharding:
    """Return a way to spread that the shape allows."""
    tensor = draw(st.sampled_from([one for one in (1, 2, 4, 8) if shape.heads % one == 0]))
    stages = draw(st.integers(1, min(8, shape.layers)))
    return Sharding(draw(st.integers(0, 3)), draw(st.integers(1, 64)), tensor, stages)


def of(shape: Shape) -> Model:
    """Return a model of a shape."""
    return Model("any", shape.parameters, shape, "a test")


@given(shapes(), works(), st.data())
def test_the_parts_are_the_whole(shape: Shape, work: Work, data: st.DataObject) -> None:
    """And every part is known where the shape is, and none is negative."""
    needed = memory(of(shape), work, data.draw(shardings(shape)))
    assert needed.is_whole
    assert needed.total_bytes == sum(part.bytes or 0 for part in needed.parts)
    assert all((part.bytes or 0) >= 0 for part in needed.parts)


@given(shapes(), works(), st.data())
def test_spreading_never_needs_more_on_a_gpu(shape: Shape, work: Work, data: st.DataObject) -> None:
    """Each way by itself, and all together; nor does a higher stage of ZeRO need more than a lower."""
    model, spread = of(shape), data.draw(shardings(shape))
    total = memory(model, work, spread).total_bytes
    assert total <= memory(model, work, Sharding()).total_bytes
    for way in ("data", "tensor", "pipeline"):
        assert total <= memory(model, work, replace(spread, **{way: 1})).total_bytes
    for stage in range(3):
        lower, higher = (memory(model, work, replace(spread, zero=each)).total_bytes for each in (stage, stage + 1))
        assert higher <= lower


@given(shapes(), works(), st.data())
def test_more_of_anything_never_needs_less(shape: Shape, work: Work, data: st.DataObject) -> None:
    """Batch, context, sequences, rank; and layers, which are parameters."""
    spread = data.draw(shardings(shape))
    total = memory(of(shape), work, spread).total_bytes
    for name in ("batch", "context", "sequences", "rank"):
        more = replace(work, **{name: getattr(work, name) + data.draw(st.integers(1, 50))})
        assert memory(of(shape), more, spread).total_bytes >= total
    for name in ("layers", "intermediate", "vocabulary"):
        larger = replace(shape, **{name: getattr(shape, name) + data.draw(st.integers(1, 50))})
        assert memory(of(larger), work, spread).total_bytes >= total


@given(st.integers(1, 10**12), st.integers(0, 10**12), works())
def test_more_parameters_never_need_less(parameters: int, more: int, work: Work) -> None:
    """Of a model of which nothing else is known."""
    small = memory(Model("small", parameters, None, ""), work, Sharding())
    large = memory(Model("large", parameters + more, None, ""), work, Sharding())
    assert large.total_bytes >= small.total_bytes


@given(shapes(), works())
def test_recomputing_never_needs_more(shape: Shape, work: Work) -> None:
    """None, selective, full: each keeps at most what the one before keeps."""
    totals = [memory(of(shape), replace(work, recompute=each), Sharding()).total_bytes for each in RECOMPUTES]
    assert totals == sorted(totals, reverse=True)
