"""Options of methods, as they are put in."""

from dataclasses import fields

import pytest

from multipool.engine.setup import configure
from multipool.methods import METHODS

RATES = [
    (name, field.name)
    for name, method in METHODS.items()
    for field in fields(method.Config)
    if field.name in ("lr", "warmup_lr", "lr_without")
]


@pytest.mark.parametrize(("method", "option"), RATES)
@pytest.mark.parametrize("rate", [-0.001, float("inf"), -1])
def test_no_learning_rate_climbs_or_is_endless(method, option, rate):
    config = METHODS[method].Config()
    with pytest.raises(ValueError, match=f"'{option}' of {method} is a learning rate and must be"):
        configure(config, {option: rate}, method)
    assert getattr(configure(config, {option: 0}, method), option) == 0.0


def test_methods_that_learn_are_among_them():
    assert len({name for name, _ in RATES}) > 20
