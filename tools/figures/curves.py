"""Keep the error curves of runs as rows: ``python tools/figures/curves.py RUNS FILE.csv``.

RUNS has a folder with a ``result.json`` for every run. Those of the front page were made by::

    for method in source bn tribe multipool; do
      multipool run --dataset cifar10-c --data-dir DIR --weights cifar10_wrn16_2.safetensors \
        --method $method --limit 7500 --device cpu --out RUNS/$method
    done
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from multipool.bench.run.result import FILE, read


def main(runs: Path, out: Path) -> None:
    """Write one row for every point of every run's curve."""
    lines = []
    for path in sorted(runs.glob(f"*/{FILE}")):
        found = read(path)
        for point in found.curve:
            begun = [c for c in found.changes if c["sample"] < point["samples"]][-1]
            lines.append(
                {
                    "method": found.settings["method"],
                    "samples": point["samples"],
                    "error": point["error"],
                    "domain": begun["domain"],
                    "start": begun["sample"],
                    "mean": found.error,
                    "undecoded": found.undecoded_error,
                }
            )
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
