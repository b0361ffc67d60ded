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
        ("NVIDIA B300 SXM6 AC", 275040, "B300-270GB"),
        ("NVIDIA RTX PRO 5000 Blackwell", 73390, "RTX-PRO-5000-Blackwell-72GB"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", 16376, "RTX-4070-Ti-SUPER-16GB"),
        ("Quadro RTX 6000", 24576, "RTX-6000-24GB"),
        ("AMD Instinct MI300X OAM", 196592, "MI300X-192GB"),
        ("NVIDIA X900", 409600, "X900-400GB"),
        ("", None, "GPU"),
    ],
)
def test_a_name_and_a_memory_are_a_sku(name: str, mebibytes: int | None, expected: str) -> None:
    """Prices are looked up by it, so one model must not have two names."""
    assert sku(name, None if mebibytes is None else mebibytes * MIB) == expected


@pytest.mark.parametrize(
    ("driver", "mebibytes", "spellings"),
    [
        ("NVIDIA L4", 23034, [("L4", 22888), ("l4", 24576)]),
        ("NVIDIA L40S", 46068, [("L40S", 45776), ("L40S", 49152)]),
        (
            "NVIDIA H100 80GB HBM3",
            81559,
            [("H100-SXM", 81920), ("H100SXM5", 81920), ("H100-MEGA-80GB", 81920), ("H100_SXM5_BAREMETAL", 81920)],
        ),
        ("NVIDIA H100 NVL", 95830, [("H100NVL", 96256), ("H100-NVL", 96256)]),
        (
            "NVIDIA A100-SXM4-80GB",
            81920,
            [("A100-80GB", 81920), ("A100_80GB", None), ("a100-80gb-sxm", 81920), ("A100 80 GB", None)],
        ),
        ("NVIDIA B200", 183359, [("B200", 183359), ("B200", 196608)]),
        ("NVIDIA B300 SXM6 AC", 275040, [("B300", 268800), ("B300", 294912)]),
        ("NVIDIA GB200", 189471, [("GB200", 196608), ("GB200", 190464)]),
        ("NVIDIA H200", 143771, [("H200-SXM", 144384), ("H200", 147456)]),
        ("NVIDIA GH200 480GB", 97871, [("GH200", 98304), ("GH200-480GB", 98304)]),
        (
            "NVIDIA RTX PRO 6000 Blackwell Server Edition",
            97887,
            [("RTXPRO6000", 98304), ("RTX-PRO-6000", 98304), ("rtxpro6000", 98304), ("RTX PRO 6000", 97887)],
        ),
        ("NVIDIA RTX A6000", 49140, [("A6000", 49152), ("RTXA6000", 49152), ("RTX-A6000", 49152)]),
        ("NVIDIA RTX 6000 Ada Generation", 49140, [("RTX6000-Ada", 49152), ("RTX6000Ada", 49152)]),
        ("NVIDIA GeForce RTX 4090", 24564, [("RTX4090", 24576), ("RTX-4090", 24576)]),
        ("NVIDIA GeForce RTX 3080 Ti", 12288, [("RTX3080Ti", 12288), ("rtx3080ti", 12288)]),
        ("Tesla T4", 15360, [("T4", 16384), ("T4", 15360)]),
        ("Tesla V100-SXM2-32GB", 32768, [("V100-32GB", 32768), ("V100", 32768)]),
    ],
)
def test_whoever_spells_a_board_it_has_one_name(
    driver: str, mebibytes: int, spellings: list[tuple[str, int | None]]
) -> None:
    """A price that a catalogue has under another name than the driver's is found by nobody."""
    named = [sku(name, None if size is None else size * MIB) for name, size in spellings]
    assert named == [sku(driver, mebibytes * MIB)] * len(spellings)
