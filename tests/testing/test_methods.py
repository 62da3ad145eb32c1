"""The contract tests find what is broken; that they pass for our own is tested with the engine."""

from dataclasses import dataclass

import pytest
import torch

from multipool.engine import Method, Prediction
from multipool.methods.tent import TENT
from multipool.testing import ContractError, check_method


@dataclass(frozen=True)
class NoConfig:
    """No options."""


class Plain(Method):
    name = "plain"
    Config = NoConfig

    def predict(self, images):
        return Prediction(self.network.plain(images))


class Forgets(TENT):
    name = "forgets"

    def keeps(self):
        return {}


class Dreams(Plain):
    name = "dreams"

    def predict(self, images):
        logits = self.network.plain(images)
        return Prediction(logits + torch.rand_like(logits))


class Narrow(Plain):
    name = "narrow"

    def predict(self, images):
        return Prediction(self.network.plain(images)[:, :4])


class Meddles(TENT):
    name = "meddles"

    def predict(self, images):
        with torch.no_grad():
            self.student.affine.add_(1)
        return super().predict(images)


class Crashes(Plain):
    name = "crashes"

    def predict(self, images):
        raise KeyError("weights")


def test_a_whole_method_passes():
    check_method(Plain)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Forgets, r"Forgets breaks 'reset is the beginning': batch \d after reset\(\)"),
        (Dreams, "Dreams breaks 'the same seed gives the same answers'"),
        (Narrow, "Narrow breaks 'any batch size gets finite logits': a batch of 64 gives logits"),
        (Meddles, "Meddles breaks 'predict learns nothing': predict changes 'student.affine'"),
        (Crashes, "Crashes breaks 'it predicts and learns without the guard': it raises KeyError"),
    ],
)
def test_a_broken_promise_is_one_sentence(kind, sentence):
    with pytest.raises(ContractError, match=sentence) as caught:
        check_method(kind)
    assert "\n" not in str(caught.value)


def test_what_is_no_method_at_all_is_told_so():
    with pytest.raises(ContractError, match="3 breaks .* unknown method 3"):
        check_method(3)
