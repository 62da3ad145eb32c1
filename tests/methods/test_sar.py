"""SAR against its paper's Eq. 2 to 4 and the facts of its release, sample by sample."""

import copy
import math

import pytest
import torch
from torch import nn

from kinds import make_kind_net
from multipool.methods import adapt

OPTIONS = {"entropy_margin": 0.06, "recovery": 0.0, "lr": 1e-2}


class Literal:
    """Two passes, one loop a sample, torch's own SGD."""

    def __init__(self, net, affine, recovery=0.0, lr=1e-2):
        self.net, self.affine, self.recovery = net, affine, recovery
        self.start = [p.detach().clone() for p in affine]
        self.optimizer = torch.optim.SGD(affine, lr=lr, momentum=0.9)
        self.level, self.limit = None, 0.06 * math.log(5)
        self.counts, self.recoveries = [], 0

    def doubts(self, x):
        z = self.net(x)
        return z, [-(z[i].softmax(0) * z[i].log_softmax(0)).sum() for i in range(len(x))]

    def grads(self, doubts, rows):
        if not rows:
            return [torch.zeros_like(p) for p in self.affine]
        return torch.autograd.grad(sum(doubts[i] for i in rows) / len(rows), self.affine)

    def __call__(self, x):
        z, doubts = self.doubts(x)
        first = [i for i in range(len(x)) if doubts[i] < self.limit]
        grads = self.grads(doubts, first)
        length = math.sqrt(sum(float((g**2).sum()) for g in grads))
        kept = [p.detach().clone() for p in self.affine]
        with torch.no_grad():
            for p, g in zip(self.affine, grads, strict=True):
                p += 0.05 * g / (length + 1e-12)
        _, doubts = self.doubts(x)
        second = [i for i in first if doubts[i] < self.limit]
        grads = self.grads(doubts, second)
        with torch.no_grad():
            for p, g, old in zip(self.affine, grads, kept, strict=True):
                p.copy_(old)
                p.grad = g
        self.optimizer.step()
        self.counts.append((len(first), len(second)))
        if second:
            loss = sum(float(doubts[i].detach()) for i in second) / len(second)
            self.level = loss if self.level is None else 0.9 * self.level + 0.1 * loss
        if self.level is not None and self.level < self.recovery:
            self.recoveries, self.level = self.recoveries + 1, None
            with torch.no_grad():
                for p, old in zip(self.affine, self.start, strict=True):
                    p.copy_(old)
        return z.detach()


def test_ten_steps_do_what_the_definition_does(tiny_net, batch_copy, drift, assert_follows):
    net, affine = batch_copy(tiny_net)
    reference = Literal(net, affine)
    adapter = adapt(tiny_net, "sar", guard=False, options=OPTIONS)
    assert_follows(adapter, reference, drift(), affine)
    assert float(adapter.method.level) == pytest.approx(reference.level, rel=1e-3)
    assert all(0 < first < 32 for first, _ in reference.counts[:-1]), "the filter let all through"


@pytest.mark.parametrize(("kind", "margin"), [("layernorm", 0.95), ("groupnorm", 0.98)])
def test_other_kinds_of_normalisation_learn_the_same_way(kind, margin, drift, assert_follows):
    model = make_kind_net(kind)
    net = copy.deepcopy(model).requires_grad_(False)
    affine = [p.requires_grad_() for name, p in net.named_parameters() if "norm" in name]
    reference = Literal(net, affine)
    adapter = adapt(model, "sar", guard=False, options={**OPTIONS, "entropy_margin": margin})
    reference.limit = adapter.method.limit
    assert_follows(adapter, reference, drift(), affine)
    assert any(0 < second < 32 for _, second in reference.counts), "the filter let all through"


def test_below_its_level_it_goes_back_to_the_source_and_forgets_the_level(
    tiny_net, batch_copy, drift
):
    net, affine = batch_copy(tiny_net)
    reference = Literal(net, affine, recovery=0.0595)
    adapter = adapt(tiny_net, "sar", guard=False, options={**OPTIONS, "recovery": 0.0595})
    levels = []
    for x in drift():
        torch.testing.assert_close(adapter(x), reference(x), rtol=2e-4, atol=2e-4)
        levels.append(float(adapter.method.level))
    assert 0 < reference.recoveries < 9, "it was to recover now and then"
    assert levels.count(-1.0) == reference.recoveries


def test_a_recovery_restores_the_parameters_and_lets_the_momentum_be(tiny_net, make_images):
    adapter = adapt(tiny_net, "sar", guard=False, options={**OPTIONS, "recovery": 10.0})
    for seed in range(2):
        adapter(make_images(32, seed=seed))
        assert torch.equal(adapter.method.student.affine, adapter.network.source.affine)
    assert adapter.method.optimizer.state["momentum"].abs().max() > 0


def test_without_a_reliable_sample_only_momentum_moves(tiny_net, make_images):
    adapter = adapt(tiny_net, "sar", guard=False, options=OPTIONS)
    adapter(make_images(32))
    speed = adapter.method.optimizer.state["momentum"].clone()
    before, level = adapter.method.student.affine.clone(), adapter.method.level.clone()
    adapter.method.limit = 0.0
    adapter(make_images(32, seed=1))
    moved = adapter.method.student.affine - before
    torch.testing.assert_close(moved, -1e-2 * 0.9 * speed, rtol=1e-3, atol=1e-7)
    assert torch.equal(adapter.method.level, level)


def test_a_second_pass_that_fails_leaves_the_parameters_where_they_were(tiny_net, make_images):
    adapter = adapt(tiny_net, "sar", guard=False, options=OPTIONS)
    before, real, calls = adapter.method.student.affine.clone(), adapter.method.gradient, []

    def second_fails(loss):
        calls.append(1)
        if len(calls) == 2:
            raise torch.OutOfMemoryError("none left")
        return real(loss)

    adapter.method.gradient = second_fails
    with pytest.raises(torch.OutOfMemoryError):
        adapter(make_images(32))
    assert torch.equal(adapter.method.student.affine, before)


class Tall(nn.Module):
    """A network whose last normalisation layer has the name of a ResNet's last stage."""

    def __init__(self, net):
        super().__init__()
        self.conv1, self.bn1, self.conv2, self.bn2 = net.conv1, net.bn1, net.conv2, net.bn2
        self.layer4, self.fc = nn.Sequential(net.conv3, net.bn3, nn.ReLU()), net.fc

    def forward(self, x):
        x = torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))
        return self.fc(self.layer4(x).mean(dim=(2, 3)))


@pytest.mark.parametrize("name", ["sar", "deyo", "sotta"])
def test_the_top_of_a_resnet_is_not_trained(tiny_net, make_images, name):
    options = {
        "sar": OPTIONS,
        "deyo": {"drop": -1.0, "entropy_margin": 1.0},
        "sotta": {"confidence": 0.2},
    }
    adapter = adapt(Tall(tiny_net), name, guard=False, options=options[name])
    for seed in range(3):
        adapter(make_images(64, seed=seed))
    moved = (adapter.method.student.affine - adapter.network.source.affine).abs()
    assert moved[:28].max() > 1e-4  # two layers of 6 and 8 channels
    assert moved[28:].max() == 0


def test_an_unknown_loss_is_a_sentence(tiny_net):
    with pytest.raises(ValueError, match="loss of sar 'entropie'.*entropy"):
        adapt(tiny_net, "sar", options={"loss": "entropie"})
