"""What each scale compares."""

from __future__ import annotations

import pytest

from multipool.bench.compare.entrant import Entrant
from multipool.bench.compare.scales import SCALES, choose
from multipool.data import DATASETS, PROTOCOLS, Stream, load
from multipool.methods import METHODS
from multipool.models import SHIPPED


@pytest.mark.parametrize("name", SCALES)
def test_every_scale_has_columns_of_their_own_and_source_to_compare_with(name):
    scale = SCALES[name]
    columns = [kind.column for kind in scale.kinds]
    assert len(set(columns)) == len(columns)
    assert "source" in scale.methods
    assert len(scale.entrants()) == len(scale.methods)
    for kind in scale.kinds:
        assert kind.dataset in DATASETS
        assert kind.protocol in PROTOCOLS


def test_the_full_scale_has_every_kind_that_was_promised():
    kinds = SCALES["full"].kinds
    assert {kind.length for kind in kinds} >= {250, 1000, 10_000}
    assert {kind.gamma for kind in kinds} == {0.01, 0.1, 1.0}
    assert {kind.protocol for kind in kinds} == set(PROTOCOLS)
    assert {kind.batch for kind in kinds} == {1, 4, 16, 64, 200}
    assert {kind.model for kind in kinds} == {"wrn16-2", "wrn28-10", "resnext29", "resnet18"}
    assert all(kind.domains == 15 for kind in kinds)
    assert SCALES["full"].seeds == (0, 1, 2)
    assert {*METHODS, "tent:loss=come"} <= set(SCALES["full"].methods)


def test_every_scale_has_streams_of_few_classes_as_long_as_there_are_images():
    found = {(k.dataset, k.shown): k.length for k in SCALES["full"].kinds if k.protocol == "few"}
    ten = {("cifar10-c", shown): 1000 for shown in (1, 2, 5)}
    assert found == {**ten, **{("cifar100-c", shown): 100 * shown for shown in (1, 2, 5)}}
    found = {(k.dataset, k.shown): k.length for k in SCALES["subset"].kinds if k.protocol == "few"}
    ten = {("cifar10-c", shown): 250 for shown in (1, 2, 5)}
    lengths = {1: 100, 2: 200, 5: 250}
    assert found == {**ten, **{("cifar100-c", shown): n for shown, n in lengths.items()}}
    for kind in (kind for kind in SCALES["small"].kinds if kind.protocol == "few"):
        stream = Stream(load("shapes-c"), kind.experiment(Entrant("bn"), 0).stream())
        assert stream.samples == kind.images == 15 * 20 * kind.shown
        assert kind.name == f"few-{kind.shown}"


def test_the_distinct_scale_shows_no_image_twice_and_lacks_only_what_repeats_itself():
    kinds, full = SCALES["distinct"].kinds, SCALES["full"].kinds
    assert all(kind.distinct for kind in kinds)
    assert all(kind.domains * kind.length <= 10_000 for kind in kinds)  # images of the sets
    names = {kind.column for kind in kinds}
    left_out = {k.name for k in full if k.column.replace(k.name, f"distinct-{k.name}") not in names}
    repeating = {"domains-10000", "recurring", "gradual"}
    assert left_out == repeating | {"few-1", "few-2", "few-5"}
    assert len(kinds) == 28
    assert not any(kind.distinct for kind in full)


def test_the_small_scale_needs_no_files():
    kinds = SCALES["small"].kinds
    assert {kind.dataset for kind in kinds} == {"shapes-c"}
    assert all(kind.weights is None for kind in kinds)
    assert "shapes-wrn10-1" in SHIPPED


def test_columns_are_chosen_by_name_or_pattern_in_their_own_order():
    kinds = SCALES["full"].kinds
    chosen = choose(kinds, ["mixed", "cifar100-c/resnext29/*"])
    assert [kind.column for kind in chosen] == [
        "cifar10-c/wrn16-2/mixed",
        "cifar100-c/wrn16-2/mixed",
        "cifar100-c/resnext29/ptta",
        "cifar100-c/resnext29/domains-10000",
        "cifar100-c/resnext29/ctta",
    ]
    with pytest.raises(ValueError, match="unknown kind of stream 'mixd'; did you mean 'mixed'"):
        choose(kinds, ["mixd"])
