"""Options of multipool: each is refused, by its name, where it makes no sense."""

from dataclasses import fields

import pytest

from multipool.methods import adapt
from multipool.methods.multipool.config import MultiPoolConfig


@pytest.mark.parametrize("option", fields(MultiPoolConfig), ids=lambda field: field.name)
def test_no_option_may_be_negative(make_net, option):
    sentence = f"{option.name}.* must be (at least|between|above) [0-9].*, got -1"
    with pytest.raises(ValueError, match=sentence):
        adapt(make_net(), options={option.name: type(option.default)(-1)})


@pytest.mark.parametrize("name", ["depth", "likeness", "rate", "again", "centre"])
def test_shares_are_no_larger_than_1(make_net, name):
    with pytest.raises(ValueError, match=f"multipool's {name} must be between 0 and 1, got 1.5"):
        adapt(make_net(), options={name: 1.5})


@pytest.mark.parametrize(
    ("name", "value"), [("most", 0), ("width", 0), ("update_every", 0), ("samples", 1)]
)
def test_what_needs_some_is_refused_none(make_net, name, value):
    with pytest.raises(ValueError, match=f"multipool's {name} must be at least"):
        adapt(make_net(), options={name: value})


def test_statistics_of_the_source_are_worth_something(make_net):
    with pytest.raises(ValueError, match="multipool's prior must be above 0, got 0.0"):
        adapt(make_net(), options={"prior": 0.0})
