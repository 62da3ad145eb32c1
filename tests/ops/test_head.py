"""How many classes a model has: by its last linear layer, or by what it says of itself."""

from types import SimpleNamespace

import pytest
from torch import nn

from multipool.ops.head import classes_of


class Convolutional(nn.Module):
    """Ends with a convolution, as SqueezeNet and timm's BiT models do."""

    def __init__(self, **said):
        super().__init__()
        self.head = nn.Conv2d(3, 7, 1)
        for name, value in said.items():
            setattr(self, name, value)


def test_the_last_linear_layer_goes_before_what_is_said():
    model = Convolutional(num_classes=4)
    model.fc = nn.Linear(3, 7)
    assert classes_of(model) == 7


@pytest.mark.parametrize("said", [{"num_classes": 7}, {"config": SimpleNamespace(num_labels=7)}])
def test_a_model_without_one_is_asked_also_inside_another(said):
    assert classes_of(nn.Sequential(nn.Identity(), Convolutional(**said))) == 7


@pytest.mark.parametrize("said", [{}, {"num_classes": 0}, {"num_classes": True}, {"config": None}])
def test_a_model_that_says_nothing_is_refused_in_a_sentence(said):
    with pytest.raises(ValueError, match="num_classes must be given: the model has no linear"):
        classes_of(Convolutional(**said))
