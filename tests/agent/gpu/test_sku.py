"""Names of GPUs, as the driver says them and as people order them."""

import pytest

from agent.wire.sku import sku
from tests.agent.gpu.fake.build import MIB


@pytest.mark.parametrize(
    ("name", "mebibytes", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", 81559, "H100-80GB"),
        ("NVIDIA H100 PCIe", 81559, "H100-80GB"),
        ("NVIDIA H100 NVL", 95830, "H100-NVL-94GB"),
        ("NVIDIA H200", 143771, "H200-141GB"),
        ("NVIDIA H20", 97871, "H20-96GB"),
        ("NVIDIA B200", 183359, "B200-180GB"),
        ("NVIDIA GB200", 189471, "GB200-186GB"),
        ("NVIDIA GH200 480GB", 97871, "GH200-96GB"),
        ("NVIDIA GH200 144G HBM3e", 147456, "GH200-144GB"),
        ("NVIDIA A100-SXM4-40GB", 40960, "A100-40GB"),
        ("A100-SXM4-40GB", 40536, "A100-40GB"),
        ("NVIDIA A100-SXM4-80GB", 81920, "A100-80GB"),
        ("NVIDIA A100 80GB PCIe", 81251, "A100-80GB"),
        ("NVIDIA A100-SXM-64GB", 65536, "A100-64GB"),
        ("NVIDIA A30", 24576, "A30-24GB"),
        ("NVIDIA A10G", 22731, "A10G-24GB"),
        ("NVIDIA A40", 46068, "A40-48GB"),
        ("NVIDIA L4", 23034, "L4-24GB"),
        ("NVIDIA L40S", 46068, "L40S-48GB"),
        ("Tesla V100-SXM2-16GB", 16160, "V100-16GB"),
        ("Tesla V100-SXM2-32GB", 32510, "V100-32GB"),
        ("Tesla P100-PCIE-16GB", 16280, "P100-16GB"),
        ("Tesla T4", 15109, "T4-16GB"),
        ("NVIDIA RTX A6000", 49140, "RTX-A6000-48GB"),
        ("NVIDIA RTX 6000 Ada Generation", 49140, "RTX-6000-Ada-48GB"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, "RTX-PRO-6000-Blackwell-96GB"),
        ("NVIDIA GeForce RTX 4090", 24564, "RTX-4090-24GB"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None, "H100-80GB"),
        ("NVIDIA GB10", None, "GB10"),
        ("NVIDIA X900", 409600, "X900-400GB"),
        ("", None, "GPU"),
    ],
)
def test_a_name_and_a_memory_are_a_sku(name: str, mebibytes: int | None, expected: str) -> None:
    """Prices are looked up by it, so one model must not have two names."""
    assert sku(name, None if mebibytes is None else mebibytes * MIB) == expected
