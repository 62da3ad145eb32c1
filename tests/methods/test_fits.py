"""Which method works on which kind of model is said once, and every claim is put to the test."""

import pytest
import torch

from kinds import make_kind_net
from multipool.methods import METHODS, adapt, load
from multipool.methods.fits import markdown, works

KINDS = {
    "layernorm": ("layernorm", None),
    "groupnorm": ("groupnorm", None),
    "instancenorm": ("instancenorm", None),
    "rmsnorm": ("rmsnorm", None),
    "channel-first": ("channel-first", None),
    "mixture": ("batchnorm", "layernorm"),
    "none": ("none", None),
}
OPTIONS = {
    "cotta": {"views": 2},
    "rmt": {"warmup_images": 0, "source_batch": 16},
}


def claims(name, kind):
    return works(METHODS[name], statistics=kind == "mixture", affine=kind != "none")


def source(make_images):
    return [(make_images(24, seed=50 + i), (torch.arange(24) + i) % 5) for i in range(3)]


CLAIMED = [(name, kind) for name in METHODS for kind in KINDS if claims(name, kind)]
REFUSED = [(name, kind) for name in METHODS for kind in KINDS if not claims(name, kind)]


@pytest.mark.parametrize(("name", "kind"), CLAIMED)
def test_what_is_claimed_runs_and_goes_on_bit_for_bit(name, kind, make_images, tmp_path):
    given, path = source(make_images), tmp_path / "state.safetensors"
    options = OPTIONS.get(name, {})
    adapter = adapt(make_kind_net(*KINDS[kind]), name, source=given, guard=False, options=options)
    for t in range(2):
        assert adapter(make_images(48, seed=t)).isfinite().all()
    adapter.save(path)
    again = load(path, make_kind_net(*KINDS[kind]), source=given)
    for t in range(2, 4):
        x = make_images(48, seed=t)
        assert torch.equal(adapter(x), again(x))


@pytest.mark.parametrize(("name", "kind"), REFUSED)
def test_what_is_not_claimed_is_refused_in_a_sentence_that_names_what_works(name, kind):
    with pytest.raises(ValueError, match=f"method '{name}' adapts .* this model has") as caught:
        adapt(make_kind_net(*KINDS[kind]), name)
    listed = str(caught.value).partition("works on it: ")[2].split(", ")
    assert listed == [other for other in METHODS if claims(other, kind)]


def test_the_methods_that_need_statistics_are_few_and_the_rest_run_on_transformers():
    refused = {name for name, kind in REFUSED if kind == "layernorm"}
    assert {"bn", "note", "tribe", "mecta"} <= refused
    assert not refused & {"tent", "pl", "eata", "rdumb", "roid", "cotta", "rmt", "lame", "neo"}
    assert not refused & {"multipool", "source", "rotta", "petta", "resitta"}


def test_the_table_has_a_line_for_every_method():
    lines = markdown().splitlines()
    assert lines[0].count("|") == lines[-1].count("|")
    assert [line.split("`")[1] for line in lines[2:]] == list(METHODS)


@pytest.mark.parametrize(
    ("word", "value", "hint"),
    [("needs_norm", "batch-norm", "'batchnorm'"), ("normalises_by", "batches", "'batch'")],
)
def test_a_method_of_ones_own_must_say_what_it_needs_in_known_words(word, value, hint):
    kind = type("Own", (METHODS["tent"],), {word: value})
    with pytest.raises(ValueError, match=f"unknown {word} of method class Own .* mean {hint}"):
        adapt(make_kind_net("layernorm"), kind)
