"""Batches that are filled up teach what they would teach as they are, to rounding."""

import pytest
import torch
from torch import nn

from multipool.methods import METHODS, adapt
from multipool.ops.normalise import LayerState, Robust, _robust_plain
from multipool.ops.padding import fill, filled

WHERE = {"multipool": "multipool.methods.multipool.method.filled"}
CASES = ("rotta", "petta", "resitta", "note", "sotta", "multipool")
CLASSES = 6


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(3, 5, 3, padding=1, bias=False), nn.BatchNorm2d(5), nn.ReLU(),
            nn.Conv2d(5, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES),
        )  # fmt: skip
        nn.init.normal_(net[-1].weight, std=2.0)
    return net.eval()


def stream(batches=9, size=24):
    draw = torch.Generator().manual_seed(1)
    colour = torch.rand(batches * size, 3, 1, 1, generator=draw)
    images = 0.6 * colour + 0.4 * torch.rand(batches * size, 3, 8, 8, generator=draw)
    return images.split(size)


def answers(method, batches):
    options = {"resitta": {"gate": 2.0}, "sotta": {"confidence": 0.0}}.get(method, {})
    options |= {"update_every": 24, "samples": 32}
    source = [(batch, torch.arange(len(batch)) % CLASSES) for batch in stream(2)]
    given = source if METHODS[method].needs_source else None
    adapter = adapt(network(), method, "mcm", source=given, options=options)
    found = torch.cat([adapter(images) for images in batches])
    return found, adapter


@pytest.mark.parametrize("method", CASES)
def test_what_fills_a_batch_counts_for_nothing(method, monkeypatch):
    batches, sizes = stream(), []

    def always(whole, *tensors):
        if not 1 < len(tensors[0]) < whole:
            return tensors
        sizes.append(len(tensors[0]))
        return fill(whole, *tensors)

    expected, plain = answers(method, batches)
    monkeypatch.setattr(WHERE.get(method, "multipool.engine.from_memory.filled"), always)
    found, other = answers(method, batches)
    assert sizes, "nothing was filled up"
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-4)
    kept, moved = plain.state_dict(), other.state_dict()
    names = [n for n in kept if n.startswith(("student", "teacher", "pools.statistics"))]
    assert names
    for name in names:
        torch.testing.assert_close(moved[name], kept[name], rtol=2e-3, atol=2e-4)


def test_a_gradient_through_the_statistics_leaves_the_filling_out():
    x = torch.randn(3, 4, 2, 2, generator=torch.Generator().manual_seed(0))
    grads = []
    for size in (3, 5):
        (given, rows) = fill(size, x) if size > 3 else (x, None)
        given = given.clone().requires_grad_(True)
        state = LayerState(torch.ones(4), torch.zeros(4), torch.zeros(4), torch.ones(4), 1e-5)
        out = Robust(0.4, rows)(given, state)
        out[:3].square().cumsum(dim=0).sum().backward()
        grads.append(given.grad)
        state = LayerState(torch.ones(4), torch.zeros(4), torch.zeros(4), torch.ones(4), 1e-5)
        torch.testing.assert_close(_robust_plain(given, state, 0.4, rows), out)
    torch.testing.assert_close(grads[1][:3], grads[0])
    assert (grads[1][3:] == 0).all()


def test_a_cpu_fills_nothing():
    images = torch.rand(3, 3, 4, 4)
    assert filled(64, images) == (images,)
