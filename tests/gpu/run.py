"""Run the checks of this folder without pytest: ``PYTHONPATH=src python tests/gpu/run.py [WORD]``.

Only checks with WORD in their name, if one is given. ``--cpu`` runs them where there is no GPU, to
see that they run; they then say nothing about graphs and copies. The exit status is the number of
checks that failed, at most 99.
"""

import sys
import time
import traceback

import checks
import torch


def main(arguments: list[str]) -> int:
    """Run and print a line for each check."""
    if "--cpu" in arguments:
        arguments.remove("--cpu")
        checks.device = torch.device("cpu")
    elif not torch.cuda.is_available():
        print("there is no GPU here; pass --cpu to see the checks run without one")
        return 1
    checks.settle()
    chosen = [name for name in checks.CHECKS if not arguments or arguments[0] in name]
    where = torch.cuda.get_device_name() if checks.device.type == "cuda" else "CPU"
    print(f"{len(chosen)} checks on {where}, torch {torch.__version__}", flush=True)
    failed = []
    for name in chosen:
        start = time.perf_counter()
        try:
            said = checks.CHECKS[name]()
        except Exception:
            failed.append(name)
            said = "FAILED\n" + traceback.format_exc()
        print(f"{time.perf_counter() - start:6.1f} s  {name}: {said}", flush=True)
    print(f"{len(chosen) - len(failed)} passed, {len(failed)} failed", *failed, sep="\n  ")
    return min(len(failed), 99)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
