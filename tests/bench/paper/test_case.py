from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multipool.bench.paper.case import Case, identity
from multipool.bench.paper.setting import SCALES, Setting, assign_weights
from multipool.bench.run.experiment import Experiment

PLAIN = Experiment(method="petta", memory="mcm", memory_options={"threshold": 0.1})


@given(place=st.text(max_size=5), device=st.sampled_from(["cpu", "cuda", "cuda:1", "auto"]))
def test_where_a_run_was_made_does_not_matter(place, device):
    settings = {**PLAIN.settings(), "data_dir": place, "device": device, "weights": place}
    assert identity(settings) == identity(PLAIN.settings())


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"limit": 100},
        {"method": "rotta"},
        {"memory": "mcm+"},
        {"protocol": "recurring"},
        {"memory_options": {"threshold": 0.2}},
        {"options": {"lr": 0.5}},
        {"guard": True},
        {"batch_size": 32},
        {"precision": "bf16"},
        {"reset_every": 10},
    ],
)
def test_what_decides_the_result_does(change):
    assert identity(replace(PLAIN, **change).settings()) != identity(PLAIN.settings())


def test_rounds_matter_in_recurring_streams_only():
    def both(protocol):
        runs = [Experiment(protocol=protocol, rounds=rounds) for rounds in (3, 20)]
        return {identity(run.settings()) for run in runs}

    assert len(both("ptta")) == 1
    assert len(both("recurring")) == 2


def test_a_setting_that_older_results_do_not_have_changes_nothing():
    older = PLAIN.settings()
    del older["compile"]
    older["options"].popitem()
    assert identity(older) == identity(PLAIN.settings())


def test_results_of_unknown_methods_have_an_identity_of_their_own():
    strange = {**PLAIN.settings(), "method": "never-heard-of"}
    assert identity(strange) != identity(PLAIN.settings())


def test_an_identity_needs_no_weights_on_this_machine():
    setting = Setting(weights={"cifar100-c": "/nowhere/model.safetensors"})
    assert "petta" in Case("petta").identity(setting, 0)
    with pytest.raises(FileNotFoundError, match="no weights at"):
        Case("petta").experiment(setting, 0)


def test_limits_count_images_of_each_domain():
    made = Case("source").experiment(Setting("small", limit=7), 0)
    assert (made.dataset, made.limit) == ("shapes-c", 7 * 15)
    assert Setting("subset").total("domainnet126") == 3000


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_says_so(scale):
    assert Setting(scale).face(recurring=True).startswith(scale.upper())


def test_a_full_stream_with_a_limit_does_not_call_itself_full():
    assert Setting("full", limit=5000).face().startswith("SUBSET: 5,000 images")
    assert "3 rounds, not 20" in Setting("full", rounds=3).face(recurring=True)
    assert "rounds" not in Setting("full", rounds=3).face()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"scale": "smal"}, "did you mean 'small'"),
        ({"limit": 0}, "limit must be at least 1, got 0"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"seeds": (1, 1)}, "seeds must be different"),
        ({"seeds": ()}, "at least one"),
        ({"methods": ("peta",)}, "did you mean 'petta'"),
        ({"weights": {"cifar": "a"}}, "unknown dataset"),
    ],
)
def test_mistakes_are_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        Setting(**wrong)


def test_weights_are_told_apart_by_dataset():
    given = ["cifar10-c=a.pt", "cifar100-c=b.pt"]
    both = ["cifar10-c", "cifar100-c"]
    assert assign_weights(given, both) == {"cifar10-c": "a.pt", "cifar100-c": "b.pt"}
    with pytest.raises(ValueError, match="several datasets are used .*write DATASET=FILE"):
        assign_weights(["a.pt"], both)
    with pytest.raises(ValueError, match="did you mean 'cifar10-c'"):
        assign_weights(["cifar10=a.pt"], both)


def test_a_file_may_have_a_sign_of_equality_in_its_name(tmp_path):
    path = tmp_path / "a=b.pt"
    path.touch()
    assert assign_weights([str(path)], ["cifar10-c"]) == {"cifar10-c": str(path)}
