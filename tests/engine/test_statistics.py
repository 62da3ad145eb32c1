"""Source statistics must be of this model: others would make every update fail, and be undone."""

import pytest
import torch

from multipool import adapt
from multipool.engine.statistics import SourceStatistics
from multipool.testing import random_images, tiny_net

GOOD = {
    "mean": torch.zeros(5, 8),
    "var": torch.ones(5, 8),
    "counts": torch.full((5,), 9),
}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mean": torch.zeros(7, 8)}, "of 7 classes, the model has 5"),
        (
            {"mean": torch.zeros(5, 6), "var": torch.ones(5, 6)},
            r"shapes \(5, 6\), \(5, 6\), \(5,\), the model needs \(5, 8\), .*; make them with this",
        ),
        ({"var": torch.ones(5)}, r"shapes \(5, 8\), \(5,\), \(5,\)"),
        ({"mean": torch.full((5, 8), float("nan"))}, "mean must be a tensor of finite numbers"),
        ({"var": 1}, "var must be a tensor of finite numbers"),
    ],
)
def test_statistics_of_another_model_or_kind_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        adapt(tiny_net(), "petta", source={**GOOD, **changed})
    with pytest.raises(ValueError, match=message):
        adapt(tiny_net(), "petta", source=SourceStatistics(**{**GOOD, **changed}))


def test_statistics_that_fit_are_taken():
    adapter = adapt(tiny_net(), "petta", source=GOOD)
    adapter(random_images(64))
    assert adapter.counts["skipped"] == 0
