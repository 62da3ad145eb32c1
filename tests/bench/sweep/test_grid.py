from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multipool.bench.run.experiment import Experiment
from multipool.bench.sweep.grid import expand, read
from multipool.bench.sweep.planned import Planned, readable

YAML = """
base:
  limit: 3000
  domains: [fog, snow]
  set: {lr: 1e-4}
grid:
  method: [rotta, resitta]
  memory:
    - single
    - {name: mcm, label: MCM 0.1, options: {threshold: 0.1}}
  seed: [0, 1, 2]
runs:
  - {method: source, seed: [0, 1], set: {}}
"""


def experiments(content):
    return [run.experiment for run in expand(content)]


def write(tmp_path, text, name="grid.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_grid_is_the_product_of_its_lists_and_runs_come_on_top(tmp_path):
    text = YAML.replace(", set: {}", "").replace("  set: {lr: 1e-4}\n", "")
    runs = read(write(tmp_path, text))
    assert len(runs) == 2 * 2 * 3 + 2
    kinds = [(r.experiment.method, r.experiment.memory, r.experiment.seed) for r in runs]
    assert kinds[:2] == [("rotta", "single", 0), ("rotta", "single", 1)]
    assert kinds[-2:] == [("source", None, 0), ("source", None, 1)]
    assert {run.experiment.domains for run in runs} == {("fog", "snow")}
    assert {run.experiment.limit for run in runs} == {3000}


def test_a_memory_may_have_a_label_and_options_of_its_own(tmp_path):
    text = YAML.replace("runs:\n  - {method: source, seed: [0, 1], set: {}}\n", "")
    runs = read(write(tmp_path, text))
    named = [run for run in runs if run.label]
    assert len(named) == 6
    assert all(run.label == "MCM 0.1" for run in named)
    assert all(run.experiment.memory_options == {"threshold": 0.1} for run in named)
    # 1e-4 is a number, although YAML 1.1 takes it for a word.
    assert all(run.experiment.options == {"lr": 0.0001} for run in runs)


def test_hyperparameters_vary_alone_or_together_on_top_of_the_base():
    base = {"method": "rotta", "memory": "mcm", "set": {"lr": 0.5, "memory.capacity": 32}}
    alone = experiments({"base": base, "grid": {"set.memory.capacity": [16, 64]}})
    assert [e.memory_options for e in alone] == [{"capacity": 16}, {"capacity": 64}]
    assert [e.options for e in alone] == [{"lr": 0.5}] * 2
    together = experiments(
        {"base": base, "grid": {"set": [{"lr": 0.1, "update-every": 32}, {"memory.fill": True}]}}
    )
    assert together[0].options == {"lr": 0.1, "update_every": 32}
    assert together[1].options == {"lr": 0.5}
    assert together[1].memory_options == {"capacity": 32, "fill": True}


def test_domains_are_one_value_in_base_and_runs_and_several_in_a_grid():
    one = experiments({"base": {"domains": "fog, snow"}, "runs": [{"seed": 1}]})
    assert one[0].domains == ("fog", "snow")
    assert experiments({"runs": [{"domains": ["fog", "snow"]}]})[0].domains == ("fog", "snow")
    several = experiments({"grid": {"domains": [["fog"], ["snow", "frost"]]}})
    assert [e.domains for e in several] == [("fog",), ("snow", "frost")]


def test_dashes_and_underscores_are_the_same():
    (run,) = experiments({"base": {"batch-size": 32}, "runs": [{"reset-every": 5}]})
    assert (run.batch_size, run.reset_every) == (32, 5)


def test_equal_runs_are_done_once_under_the_first_label():
    memory = {"name": "mcm", "options": {"threshold": 0.2}}
    runs = expand({"grid": {"memory": [{**memory, "label": "a"}, {**memory, "label": "b"}]}})
    assert [run.label for run in runs] == ["a"]


@given(
    seeds=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    methods=st.lists(st.sampled_from(["source", "bn", "tent"]), min_size=1, max_size=3),
    sizes=st.lists(st.sampled_from([16, 64]), min_size=1, max_size=2),
)
def test_a_grid_holds_each_combination_once_whatever_the_order_of_its_keys(seeds, methods, sizes):
    grid = {"seed": seeds, "method": methods, "batch_size": sizes}
    names = [run.name for run in expand({"grid": grid})]
    backwards = [run.name for run in expand({"grid": dict(reversed(grid.items()))})]
    assert len(names) == len(set(names)) == len(set(seeds)) * len(set(methods)) * len(set(sizes))
    assert set(names) == set(backwards)


def test_a_name_is_safe_for_a_file_and_changes_with_every_setting():
    plain = Planned(Experiment())
    assert plain.name != Planned(Experiment(gamma=0.2)).name
    assert plain.name != Planned(Experiment(method="rotta", options={"lr": 0.2})).name
    assert plain.name == Planned(Experiment(), "a label").name
    wild = Experiment(
        method="rotta", domains=None, model=None, options={"lr": 1e-5}, protocol="ctta", seed=7
    )
    assert readable(wild) == "rotta-lr=1e-05-shapes-c-ctta-seed7"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"grids": {}}, ["unknown part of a sweep file 'grids'", "did you mean 'grid'", "runs"]),
        ({}, ["'grid'", "'runs'", "got neither"]),
        ({"grid": {"seed": 3}}, ["grid: seed must be a list", "3"]),
        ({"grid": {"seed": []}}, ["grid: seed must be a list"]),
        ({"grid": {"sed": [1]}}, ["grid: unknown option 'sed'", "did you mean 'seed'"]),
        ({"base": {"memori": "mcm"}, "runs": [{}]}, ["base: unknown option 'memori'", "'memory'"]),
        ({"base": {"seed": [1, 2]}, "runs": [{}]}, ["base: seed must be one value", "grid"]),
        ({"runs": [{"nope": 1}]}, ["runs, entry 1", "unknown option 'nope'"]),
        ({"runs": {"seed": 1}}, ["runs must be a list", "dict"]),
        ({"runs": ["source"]}, ["runs, entry 1 must be a mapping", "str"]),
        ({"grid": {"method": ["rotta", "rota"]}}, ["method rota", "did you mean 'rotta'"]),
        ({"grid": {"method": ["source"], "memory": ["mcm"]}}, ["source has no memory", "mcm"]),
        ({"grid": {"memory": [{"label": "x"}]}}, ["a memory needs a name"]),
        ({"grid": {"memory": [{"name": "mcm", "tau": 1}]}}, ["key of a memory 'tau'", "options"]),
        ({"grid": {"memory": [{"name": "mcm", "options": {"tau": 1}}]}}, ["tau"]),
        (
            {"base": {"method": "rotta"}, "grid": {"set.lrr": [1]}},
            ["unknown option of rotta 'lrr'", "lr"],
        ),
        ({"grid": {"set.a.b": [1]}}, ["set takes KEY or memory.KEY", "a.b"]),
        ({"grid": {"gamma": ["x"]}}, ["the run with gamma x"]),
        ({"grid": {"severity": [9]}}, ["severity must be 1 to 5, got 9"]),
    ],
)
def test_a_mistake_is_found_before_anything_runs(content, words):
    with pytest.raises(ValueError, match=".") as caught:
        expand(content)
    said = str(caught.value)
    assert all(word in said for word in words), said
    assert "\n" not in said


def test_missing_weights_are_found_before_anything_runs():
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pt, seed 0: no weights at nowhere\.pt"):
        expand({"base": {"weights": "nowhere.pt"}, "grid": {"seed": [0]}})


def test_a_json_file_says_the_same_without_yaml(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    content = {"base": {"method": "bn"}, "grid": {"seed": [0, 1]}}
    runs = read(write(tmp_path, json.dumps(content), "grid.json"))
    assert [run.experiment.seed for run in runs] == [0, 1]
    with pytest.raises(ValueError, match="PyYAML, which is missing; use a .json file"):
        read(write(tmp_path, YAML))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.yaml", "grid: [", "not readable as YAML"),
        ("a.json", "{", "not readable as JSON"),
        ("a.yaml", "", "got nothing"),
        ("a.yaml", "- 1", "got a list"),
        ("a.yaml", "grid: {seed: 1}", r"a\.yaml: grid: seed must be a list"),
    ],
)
def test_a_broken_file_is_named(tmp_path, name, text, words):
    with pytest.raises(ValueError, match=words):
        read(write(tmp_path, text, name))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no sweep file at"):
        read(tmp_path / "none.yaml")
