"""``python -m multipool.bench.reproduce``: where typer and rich are not installed.

Without matplotlib no figure is drawn; ``multipool reproduce --collect`` draws them elsewhere.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence

from multipool.bench.reproduce.drive import reproduce
from multipool.bench.reproduce.plan import datasets_of
from multipool.bench.reproduce.setting import SCALES, Setting, assign_weights
from multipool.bench.reproduce.targets import TARGETS, chosen
from multipool.bench.sweep import Options
from multipool.bench.sweep.__main__ import tell


def main(words: Sequence[str] | None = None) -> int:
    """Reproduce ids and return the exit code: 0 done, 1 some runs failed, 2 a mistake."""
    given = _parser().parse_args(words)
    try:
        names = chosen(given.ids)
        plain = Setting(
            scale=given.scale,
            seeds=None if given.seeds is None else tuple(map(int, given.seeds.split(","))),
            limit=given.limit,
            rounds=given.rounds,
            device=given.device,
            data_dir=given.data_dir,
            methods=tuple(given.methods.split(",")) if given.methods else (),
        )
        weights = assign_weights(given.weights, datasets_of(names, plain) or ["cifar100-c"])
        made = reproduce(
            names,
            Setting(**{**vars(plain), "weights": weights}),
            given.out,
            options=Options(workers=given.workers, threads=given.threads),
            draw=importlib.util.find_spec("matplotlib") is not None,
            tell=tell,
            say=lambda text: print(text, flush=True),
        )
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    for report in made.reports:
        print(f"{given.out}/{report.name}.csv")
    for name, sentence in made.failed.items():
        print(f"failed: {name}: {sentence}", file=sys.stderr)
    return 1 if made.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="multipool.bench.reproduce", description=__doc__)
    parser.add_argument("ids", nargs="+", metavar="ID", help=f"all, {', '.join(TARGETS)}")
    parser.add_argument("--scale", default="full", choices=list(SCALES))
    parser.add_argument("--seeds", help="like 0,1,2")
    parser.add_argument("--limit", type=int, help="images of each domain")
    parser.add_argument("--rounds", type=int, help="of recurring streams")
    parser.add_argument("--methods", help="only the rows of these, like petta,rotta")
    parser.add_argument("--data-dir", help="where datasets lie; else MULTIPOOL_DATA")
    parser.add_argument("--weights", action="append", default=[], help="[DATASET=]FILE")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, help="processes; several may share a GPU")
    parser.add_argument("--threads", type=int, help="of each process")
    parser.add_argument("--out", required=True, help="folder of runs, tables and figures")
    return parser


if __name__ == "__main__":
    sys.exit(main())
