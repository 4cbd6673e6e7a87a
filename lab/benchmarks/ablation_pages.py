"""The tables of the ablations (`make ablation`) into docs/cookbook.md.

    python lab/benchmarks/ablation_pages.py

Each is `ablation.md` of its directory below lab/benchmarks/ablation, between its marks.
"""

from pathlib import Path

from marked_blocks import write_block

ROOT = Path(__file__).parents[2]
ARMS = ("deduplication", "filtering", "annealing")


def main() -> None:
    """Write the tables of every ablation that was run."""
    for arms in ARMS:
        table = ROOT / "lab" / "benchmarks" / "ablation" / arms / "ablation.md"
        if table.is_file():
            text = table.read_text(encoding="utf-8")
            write_block(ROOT / "docs" / "cookbook.md", f"ablation of {arms}", text)


if __name__ == "__main__":
    main()
