from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agent.sources.flows import MovedBytes, PortMeter, equal_parts, estimate


def write_port(sys: Path, device: str, received: int, sent: int) -> None:
    """Let a port have moved so many words of four bytes."""
    counters = sys / "class/infiniband" / device / "ports/1/counters"
    counters.mkdir(parents=True, exist_ok=True)
    (counters / "port_rcv_data").write_text(str(received))
    (counters / "port_xmit_data").write_text(str(sent))


def test_the_ports_are_read_as_bytes_of_the_interval(tmp_path: Path) -> None:
    """All ports together: a run's traffic is spread over its rails."""
    write_port(tmp_path, "mlx5_0", 100, 1000)
    write_port(tmp_path, "mlx5_1", 0, 0)
    meter = PortMeter(tmp_path)
    assert meter.moved() is None  # what they moved before is nobody's
    write_port(tmp_path, "mlx5_0", 101, 1002)
    write_port(tmp_path, "mlx5_1", 10, 0)
    assert meter.moved() == MovedBytes(44, 8)
    write_port(tmp_path, "mlx5_1", 9, 0)
    assert meter.moved() is None  # one was reset, and the sum is unknown


def test_the_ports_bytes_are_shared_out_over_the_runs_nodes() -> None:
    """An estimate, and the whole of what the ports moved."""
    found = estimate(MovedBytes(7, 4), {"run": ["n3", "n2"]})
    assert found.moved == {("run", "n2"): MovedBytes(4, 2), ("run", "n3"): MovedBytes(3, 2)}


def test_two_runs_on_a_host_are_not_told_apart() -> None:
    """The ports count for the host; to give either run a part would be invention."""
    found = estimate(MovedBytes(7, 4), {"a": ["n2"], "b": ["n3"]})
    assert found.moved == {}
    assert "2 runs" in found.why


def test_a_run_whose_peers_have_no_names_is_not_estimated() -> None:
    """Its connections may be to a registry or a mirror; only a node that a file names can be the other end."""
    assert "peers_table" in estimate(MovedBytes(7, 4), {}).why
    assert "peers_table" in estimate(MovedBytes(7, 4), {"run": []}).why
    assert estimate(None, {"run": ["n2"]}).why


def test_ports_that_move_nothing_make_no_rows() -> None:
    """Many hosts have RDMA ports that nobody uses."""
    assert estimate(MovedBytes(), {"run": ["n2", "n3"]}).moved == {}


@given(st.integers(0, 2**62), st.integers(1, 500))
def test_shares_sum_to_the_whole(whole: int, parts: int) -> None:
    """Nothing is created by a rounding, or lost in one."""
    found = equal_parts(whole, parts)
    assert (sum(found), len(found)) == (whole, parts)
    assert max(found) - min(found) <= 1
