from __future__ import annotations

import subprocess
import sys

import pytest

from multipool.bench.paper import Setting, cases_of, export
from multipool.bench.paper.case import identity
from multipool.bench.sweep import read

IDS = ["table2", "table3", "table5", "tableS1", "fig3"]


def test_a_plan_is_read_by_a_sweep_as_the_same_runs(tmp_path):
    setting = Setting("small", seeds=(0, 3))
    cases = cases_of(IDS, setting)
    count = export(tmp_path / "plan.json", cases, setting)
    runs = read(tmp_path / "plan.json")
    assert len(runs) == count == 2 * len(cases)
    wanted = {case.identity(setting, seed) for case in cases for seed in (0, 3)}
    assert {identity(run.settings) for run in runs} == wanted


def test_a_plan_may_be_for_a_machine_with_other_places(tmp_path):
    setting = Setting("subset", device="cuda", data_dir="there", weights={"cifar100-c": "w.pt"})
    export(tmp_path / "plan.json", cases_of(["table4"], setting), setting)
    with pytest.raises(FileNotFoundError, match="no weights at w.pt"):
        read(tmp_path / "plan.json")  # here, where they are not


def test_runs_in_another_precision_are_other_runs_and_say_so(tmp_path):
    half, plain = Setting("small", seeds=(0,), precision="bf16"), Setting("small", seeds=(0,))
    export(tmp_path / "plan.json", cases_of(["table4"], half), half)
    runs = read(tmp_path / "plan.json")
    assert {run.experiment.precision for run in runs} == {"bf16"}
    found = {identity(run.settings) for run in runs}
    case = cases_of(["table4"], plain)[0]
    assert case.identity(half, 0) in found
    assert case.identity(plain, 0) not in found
    assert half.face() == plain.face() + "; in bf16"
    with pytest.raises(ValueError, match="unknown precision 'half'"):
        Setting("small", precision="half")


def test_the_first_seed_comes_first(tmp_path):
    setting = Setting("small", seeds=(5, 4))
    export(tmp_path / "plan.json", cases_of(["table4"], setting), setting)
    seeds = [run.experiment.seed for run in read(tmp_path / "plan.json")]
    assert seeds == [5] * 4 + [4] * 4


def test_grids_and_plans_need_no_package_of_the_command_line():
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['typer', 'rich', 'yaml', 'matplotlib', 'pooch']))\n"
        "import multipool.bench.paper, multipool.bench.sweep\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True)
