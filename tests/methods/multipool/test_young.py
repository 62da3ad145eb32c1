"""Young pools ask whether their statistics make the model less sure: a sign of few classes."""

import numpy as np
import pytest
import torch
from torch import nn

from kinds import make_kind_net
from multipool.methods import adapt, load
from multipool.methods.multipool.rules import few_classes

RANDOM = np.array([1000.0, 0.0])  # the correlation's sums of a stream in random order
STILL = {"lr": 0.0}  # nothing is learned, so that only statistics speak


def coloured(colours, seed):
    """Return an image of grain ``(B, 3, 8, 8)`` for each of the colours ``(B, 3)``."""
    grain = torch.rand(len(colours), 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    return 0.6 * colours[:, :, None, None] + 0.4 * grain


def many(count, seed):
    return torch.rand(count, 3, generator=torch.Generator().manual_seed(seed))


def entropies(logits):
    p = logits.softmax(dim=1)
    return -(p * p.log()).sum(dim=1)


@pytest.fixture(scope="module")
def net():
    """A network whose statistics are those of images of all colours, and whose logits are sure."""
    made = make_kind_net("batchnorm")
    with torch.no_grad():
        for module in made.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = None  # a plain mean
                module.reset_running_stats()
        for seed in range(10):
            made.train()(coloured(many(200, seed), seed))
        logits = made.eval()(coloured(many(400, 99), 99))
        scale = 4 / logits.std(dim=0)
        made.fc.bias.sub_(logits.mean(dim=0)).mul_(scale)
        made.fc.weight.mul_(scale[:, None])
    return made


@pytest.fixture(scope="module")
def sure(net):
    """The colour that the network is surest of, ``(1, 3)``: one class."""
    colours = many(100, 5)
    with torch.no_grad():
        doubt = [entropies(net(coloured(colour.expand(32, 3), 6))).mean() for colour in colours]
    return colours[torch.stack(doubt).argmin()][None]


def run(adapter, batches):
    for images in batches:
        adapter.method.correlation.sums = RANDOM.copy()
        yield adapter(images), images


@pytest.mark.parametrize("size", [64, 8])
def test_a_stream_of_one_class_is_left_to_the_source(net, sure, size):
    adapter = adapt(net, decode="none", options=STILL)
    found = list(run(adapter, [coloured(sure.expand(size, 3), t) for t in range(320 // size)]))
    assert adapter.method.doubt(0) == 1.0
    assert adapter.pools[0].trust == 0.0
    for logits, images in found[len(found) // 2 :]:
        torch.testing.assert_close(logits, net(images), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("size", [64, 8])
def test_a_stream_of_all_classes_is_trusted(net, size):
    adapter = adapt(net, decode="none", options=STILL)
    list(run(adapter, [coloured(many(size, t), t) for t in range(320 // size)]))
    assert adapter.method.doubt(0) == 0.0
    assert adapter.pools[0].trust > 0.5


def test_what_is_kept_is_how_sure_the_images_are(net):
    adapter = adapt(net, decode="none", options=STILL)
    expected = np.zeros(3)
    for logits, images in run(adapter, [coloured(many(64, t), t) for t in range(3)]):
        own, source = entropies(logits).sum(), entropies(net(images).detach()).sum()
        expected += [float(own), float(source), 64]
    np.testing.assert_allclose(adapter.method.accounts.doubts[0], expected, rtol=1e-4)


def test_nobody_asks_where_classes_come_in_runs_nor_when_a_pool_is_old(net, sure):
    adapter = adapt(net, decode="none", options={**STILL, "young": 64})
    adapter(coloured(sure.expand(64, 3), 0))  # thought correlated before anything is seen
    assert not adapter.method.accounts.doubts.any()
    list(run(adapter, [coloured(sure.expand(64, 3), 1)]))
    assert not adapter.method.accounts.doubts.any()


def test_predicting_alone_keeps_nothing(net, sure):
    adapter = adapt(net, decode="none", options=STILL)
    adapter(coloured(many(32, 0), 0))
    adapter.method.correlation.sums = RANDOM.copy()
    adapter.predict(coloured(sure.expand(64, 3), 1))
    assert not adapter.method.accounts.doubts.any()


def test_images_of_one_class_teach_nothing(net, sure):
    adapter = adapt(net, decode="none")
    list(run(adapter, [coloured(sure.expand(64, 3), t) for t in range(4)]))
    assert torch.equal(adapter.method.learning.student.affine, adapter.network.source.affine)


def test_saved_and_resumed(net, sure, tmp_path):
    adapter = adapt(net)
    list(run(adapter, [coloured(sure.expand(64, 3), t) for t in range(2)]))
    adapter.save(tmp_path / "state.safetensors")
    again = load(tmp_path / "state.safetensors", net)
    assert again.method.doubt(0) == adapter.method.doubt(0) > 0
    images = coloured(sure.expand(64, 3), 3)
    assert torch.equal(adapter(images), again(images))


@pytest.mark.parametrize(
    ("own", "source", "images", "expected"),
    [(1.3, 1.0, 64, 0.0), (1.4, 1.0, 64, 0.5), (9.0, 1.0, 64, 1.0), (0.2, 1.0, 64, 0.0)]
    + [(9.0, 1.0, 31, 0.0), (9.0, 0.0, 64, 0.0)],  # too few images; a source that is all sure
)
def test_few_classes(own, source, images, expected):
    assert few_classes(np.array([own, source, images])) == pytest.approx(expected)
