"""The checks run without a GPU, too, so that one that no longer fits the code is noticed."""

import checks
import pytest
import torch


@pytest.mark.parametrize("name", checks.CHECKS)
def test_on_a_cpu(name, monkeypatch):
    monkeypatch.setattr(checks, "device", torch.device("cpu"))
    assert checks.CHECKS[name]()
