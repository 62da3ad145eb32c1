"""Values on their way between host and device; a CPU is its own device."""

import numpy as np
import torch

from multipool.ops.host import Arriving, sent


def test_values_arrive_as_they_were_sent():
    values = np.array([1.5, -2.0], dtype=np.float32)
    there = sent(values, torch.device("cpu"))
    assert torch.equal(there, torch.tensor([1.5, -2.0]))
    assert torch.equal(Arriving(there).wait(), there)


def test_what_arrives_needs_no_gradient():
    values = torch.ones(2, requires_grad=True)
    assert not Arriving(values * 2).wait().requires_grad
