"""The checks of this folder as tests: ``pytest -m gpu``; ``make gpu`` runs them without pytest."""

import checks
import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"),
]


@pytest.fixture(autouse=True)
def exact_arithmetic(monkeypatch):
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    for owner, name in ((cudnn, "allow_tf32"), (matmul, "allow_tf32"), (cudnn, "deterministic")):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # put back afterwards
    checks.settle()


@pytest.mark.parametrize("name", checks.CHECKS)
def test_on_a_gpu(name):
    assert checks.CHECKS[name]()
