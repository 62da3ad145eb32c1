"""The twelve mistakes of docs/guides/mistakes.md: each is made, and answered by its sentence."""

import logging
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from kinds import make_kind_net
from multipool.methods import METHODS, adapt

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "mistakes.md"


class Around(nn.Module):
    """A model whose output goes through a function."""

    def __init__(self, model, function):
        super().__init__()
        self.model, self.function = model, function

    def forward(self, x):
        return self.function(self.model(x))


@pytest.fixture
def said(caplog):
    """Return what the library's logger has said so far."""
    caplog.set_level(logging.WARNING, logger="multipool")
    return lambda: [record.getMessage() for record in caplog.records]


IMAGES = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
NORMALISED = (IMAGES - 0.45) / 0.22
ERRORS = {  # by the page's number: images, and what is said
    1: (NORMALISED, r"got values from -2\S* to 2\S*; they look normalised, but the model should "
        r"normalise: models\.wrap\(model, mean, std\)"),
    3: (IMAGES * 255, "got values from 0.* to 25.*; divide by 255 or pass uint8"),
    4: (IMAGES.permute(0, 2, 3, 1), r"got \(4, 8, 8, 3\), which looks like \(B, H, W, C\); "
        r"pass images\.permute\(0, 3, 1, 2\)"),
    5: (IMAGES[0], r"must have shape \(B, C, H, W\), got \(3, 8, 8\); pass images\[None\]"),
}  # fmt: skip


@pytest.mark.parametrize("number", ERRORS)
@pytest.mark.parametrize("method", ["multipool", "tent"])
def test_images_that_cannot_be_right_are_refused_and_change_nothing(number, method):
    images, message = ERRORS[number]
    adapter = adapt(make_kind_net("batchnorm"), method)
    before = adapter.state_dict()
    for call in (adapter, adapter.predict):
        with pytest.raises(ValueError, match=message):
            call(images)
    assert all(torch.equal(value, before[name]) for name, value in adapter.state_dict().items())


def test_1_every_usual_normalisation_is_known_for_what_it_is():
    adapter = adapt(make_kind_net("layernorm"), "source")
    for mean, std in ((0.5, 0.5), (0.45, 0.22), (0.5, 1.0), (0.3, 0.003)):
        with pytest.raises(ValueError, match="the model should normalise"):
            adapter((IMAGES - mean) / std)
    with pytest.raises(ValueError, match=r"clamp what resizing left outside: images\.clamp"):
        adapter(IMAGES * 1.05 - 0.02)
    with pytest.raises(ValueError, match="mask or drop"):
        adapter(IMAGES.where(IMAGES < 0.9, torch.inf))


@pytest.mark.parametrize("library", ["timm", "torchvision", "transformers"])
def test_2_a_librarys_own_model_is_told_to_be_wrapped(library, said):
    model = make_kind_net("layernorm")
    kind = type("TheirNet", (type(model),), {"__module__": f"{library}.models.net"})
    model.__class__ = kind
    adapt(model, "source")
    (message,) = said()
    assert re.search(rf"TheirNet is a model of {library}.*: pass models\.wrap\(model", message)
    adapt(nn.Sequential(model), "source")
    assert len(said()) == 1


def test_6_a_size_the_model_cannot_take_is_named_with_its_own_words():
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 5), nn.LayerNorm(5))
    for method in ("source", "tent", "multipool"):
        with pytest.raises(ValueError, match=r"fails on images of 3x9x9 \(.*192.*\); give it the"):
            adapt(model, method)(torch.rand(2, 3, 9, 9))
    with pytest.raises(ValueError, match="takes images of 3 channels, got 1"):
        adapt(make_kind_net("groupnorm"), "rotta")(torch.rand(2, 1, 8, 8))


def test_7_probabilities_are_noticed_once_and_logits_and_their_logarithm_are_not(said):
    model = make_kind_net("batchnorm")
    for function, count in ((nn.Identity(), 0), (nn.LogSoftmax(1), 0), (nn.Softmax(1), 1)):
        adapter = adapt(Around(model, function), "tent")
        for _ in range(3):
            adapter(IMAGES)
        found = [m for m in said() if "returns probabilities" in m]
        assert len(found) == count
    assert "return the logits before its softmax, or their logarithm" in found[0]


@pytest.mark.parametrize(
    ("function", "came"),
    [
        (lambda z: {"scores": z}, "a dict with scores"),
        (lambda z: (z[:, :, None], None), r"a tuple of \(4, 5, 1\) float32, NoneType"),
        (lambda z: z.argmax(1), r"\(4,\) int64"),
    ],
)
def test_8_what_is_no_logits_is_named(function, came):
    with pytest.raises(ValueError, match=f"the model returned {came}.*; wrap the model"):
        adapt(Around(make_kind_net("layernorm"), function), "tent")(IMAGES)


def test_8_logits_are_found_in_dicts_and_tuples():
    model = make_kind_net("layernorm")
    wanted = adapt(model, "lame")(IMAGES)
    for function in (lambda z: {"logits": z}, lambda z: (z, None), lambda z: [None, z]):
        assert torch.equal(adapt(Around(model, function), "lame")(IMAGES), wanted)


def test_9_a_wrong_number_of_classes_is_named():
    with pytest.raises(
        ValueError, match="gives 5 logits an image, num_classes is 7; .*: pass num_classes=5"
    ):
        adapt(make_kind_net("layernorm"), "tent", num_classes=7)(IMAGES)


def test_10_a_method_without_its_layers_names_those_that_work():
    with pytest.raises(ValueError, match="'bn' adapts BatchNorm layers .* GroupNorm only; .*tent"):
        adapt(make_kind_net("groupnorm"), "bn")


def test_11_one_image_is_no_batch_to_take_statistics_of(said):
    adapter = adapt(make_kind_net("batchnorm"), "bn")
    adapter(IMAGES)
    assert said() == []
    for _ in range(3):
        adapter(IMAGES[:1])
    (message,) = said()
    assert re.search(r"'bn' normalises .* one image: give it larger .* such as multipool", message)
    assert METHODS["multipool"].normalises_by == "kept"
    for method, kind in (("multipool", "batchnorm"), ("tent", "layernorm"), ("rotta", "batchnorm")):
        adapt(make_kind_net(kind), method)(IMAGES[:1])
    assert len(said()) == 1


def test_12_a_model_without_gradients_answers_and_says_why_it_does_not_learn(said):
    class Silent(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = make_kind_net("layernorm")

        @torch.no_grad()
        def forward(self, x):
            return self.model(x)

    for method, options in (("tent", {}), ("cotta", {"views": 1})):
        with pytest.raises(ValueError, match="no gradient, so nothing can be learned: .*; take"):
            adapt(Silent(), method, guard=False, options=options)(IMAGES)
    torch.testing.assert_close(adapt(Silent(), "tent")(IMAGES), Silent()(IMAGES))
    assert "runs under torch.no_grad" in said()[0]


def test_the_page_lists_twelve_and_links_this_file():
    text = PAGE.read_text(encoding="utf-8")
    rows = [int(n) for n in re.findall(r"^\| (\d+) \|", text, flags=re.MULTILINE)]
    assert rows == list(range(1, 13))
    assert "tests/engine/test_mistakes.py" in text


# What is no mistake -----------------------------------------------------------------------------


def test_arrays_say_how_to_become_a_tensor():
    with pytest.raises(ValueError, match=r"got ndarray; make one with torch\.as_tensor"):
        adapt(make_kind_net("none"), "source")(np.zeros((2, 3, 8, 8)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_models_and_images_give_float32_logits(dtype):
    model = make_kind_net("layernorm").to(dtype)
    adapter = adapt(model, "tent")
    found = adapter(IMAGES.to(dtype))
    assert found.dtype == torch.float32
    wanted = model.float()(IMAGES.to(dtype).float())
    torch.testing.assert_close(found, wanted.detach(), rtol=1e-4, atol=1e-4)


def test_train_mode_dropout_and_frozen_parameters_do_not_matter():
    model = nn.Sequential(make_kind_net("batchnorm"), nn.Dropout(0.5)).train().requires_grad_(False)
    one, other = adapt(model, "tent"), adapt(model.eval(), "tent")
    for _ in range(2):
        assert torch.equal(one(IMAGES), other(IMAGES))
    assert not model.training


def test_uint8_is_divided():
    model = make_kind_net("groupnorm")
    x = (IMAGES * 255).round()
    found = adapt(model, "source")(x.to(torch.uint8))
    torch.testing.assert_close(found, adapt(model, "source")(x / 255))


def test_many_channels_are_no_colours_at_the_end():
    conv = nn.Conv2d(8, 4, 1)
    model = nn.Sequential(conv, nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(96, 5))
    assert adapt(model, "tent")(torch.rand(2, 8, 8, 3)).shape == (2, 5)
