import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.core import numpy_generator, torch_generator
from multipool.methods import adapt
from multipool.methods.cotta import stochastic_restore
from multipool.ops import View

SEED = 3


def cross_entropy(p, z):
    return -(p * z.log_softmax(1)).sum(1)


class LiteralCoTTA:
    """methods.md 3.6 on three whole networks in train mode; draws in the adapter's order."""

    def __init__(self, model, confidence, views, loss, optimizer, restore):
        self.student, self.teacher, self.anchor = (copy.deepcopy(model).train() for _ in range(3))
        self.teacher.requires_grad_(False), self.anchor.requires_grad_(False)
        parameters = list(self.student.parameters())
        self.start = [p.detach().clone() for p in parameters]
        self.optimizer = (
            torch.optim.Adam(parameters, lr=1e-3)
            if optimizer == "adam"
            else torch.optim.SGD(parameters, lr=0.01, momentum=0.9, nesterov=True)
        )
        self.confidence, self.views, self.loss, self.restore = confidence, views, loss, restore
        self.draws, self.noise = numpy_generator(SEED, "draws", "cotta"), torch_generator(SEED)
        self.averaged = 0

    def __call__(self, x):
        z = self.student(x)
        sure = self.anchor(x).softmax(1).max(1).values.mean()
        if sure < self.confidence:
            views = [View()(x, self.draws, self.noise) for _ in range(self.views)]
            target = sum(self.teacher(v) for v in views) / self.views
            self.averaged += 1
        else:
            target = self.teacher(x)
        loss = cross_entropy(target.softmax(1), z)
        if self.loss == "sce":
            loss = loss / 2 + cross_entropy(z.softmax(1), target) / 2
        self.optimizer.zero_grad()
        loss.mean().backward()
        self.optimizer.step()
        with torch.no_grad():
            pairs = zip(self.teacher.parameters(), self.student.parameters(), strict=True)
            for t, s in pairs:
                t.copy_(0.999 * t + 0.001 * s)
            if self.restore:
                for s, s0 in zip(self.student.parameters(), self.start, strict=True):
                    s.copy_(s0)
        return target.detach()


def build(net, confidence=0.72, views=3, loss="ce", optimizer="adam", restore=0.0):
    options = {
        "confidence": confidence, "views": views, "loss": loss, "optimizer": optimizer,
        "lr": 1e-3 if optimizer == "adam" else 0.01, "restore_rate": restore,
    }  # fmt: skip
    return adapt(net, "cotta", seed=SEED, guard=False, options=options)


@pytest.mark.parametrize(
    ("loss", "optimizer", "restore"),
    [("ce", "adam", 0.0), ("sce", "sgd", 0.0), ("ce", "adam", 1.0)],
)
def test_ten_steps_are_as_published(tiny_net, make_images, loss, optimizer, restore):
    batches = [make_images(16, seed=t) for t in range(10)]
    with torch.no_grad():
        net = copy.deepcopy(tiny_net).train()
        sure = torch.stack([net(x).softmax(1).amax(1).mean() for x in batches])
    middle = float(sure.median())  # so that both branches are taken
    # Views first: where student and teacher agree the gradient is 0 and Adam follows the rounding.
    batches = [batches[i] for i in sure.argsort()]
    adapter = build(tiny_net, middle, 3, loss, optimizer, restore)
    reference = LiteralCoTTA(tiny_net, middle, 3, loss, optimizer, restore)
    # The adapter draws its restoration from the same generator: let both draw the same views.
    adapter_noise = adapter.method.noise
    for x in batches:
        reference.noise.set_state(adapter_noise.get_state())
        torch.testing.assert_close(adapter(x), reference(x), rtol=1e-3, atol=1e-3)
    assert 0 < reference.averaged < 10
    for ours, theirs in (
        (adapter.method.student, reference.student),
        (adapter.method.teacher, reference.teacher),
    ):
        x = make_images(16, seed=99)
        with torch.no_grad():
            torch.testing.assert_close(ours.run(x)[0], theirs(x), rtol=2e-3, atol=2e-3)
    if not restore:
        assert (adapter.method.student.values - adapter.method.start).abs().max() > 1e-3


def test_every_parameter_learns_and_the_source_network_never_does(tiny_net, make_images):
    adapter = build(tiny_net)
    x = make_images(16)
    before = adapter.network.plain(x)
    adapter(x)
    moved = [
        not torch.equal(now.detach(), start)
        for now, start in zip(
            adapter.method.student.network.body.parameters(),
            adapter.network.body.parameters(),
            strict=True,
        )
    ]
    assert all(moved)
    assert torch.equal(adapter.network.plain(x), before)


def test_the_expected_share_of_weights_goes_back_each_step(make_net, make_images):
    whole, partly = (build(make_net(100), restore=rate) for rate in (0.0, 0.3))
    for adapter in (whole, partly):
        adapter(make_images(16))
    moved = whole.method.student.values != whole.method.start
    back = partly.method.student.values == partly.method.start
    assert float(back[moved].float().mean()) == pytest.approx(0.3, abs=0.05)
    assert torch.equal(partly.method.student.values[~back], whole.method.student.values[~back])


def test_the_teacher_sees_restored_weights_one_batch_later(tiny_net, make_images):
    adapter = build(tiny_net, confidence=0.0, restore=1.0)
    adapter(make_images(16))
    assert torch.equal(adapter.method.student.values, adapter.method.start)
    assert not torch.equal(adapter.method.teacher.values, adapter.method.start)


def test_views_do_not_mix_their_statistics_whatever_their_number(tiny_net, make_images):
    few, many = build(tiny_net, 2.0, views=8), build(tiny_net, 2.0, views=11)  # 11: two passes
    teacher = copy.deepcopy(tiny_net).train()
    draws, noise = numpy_generator(SEED, "draws", "cotta"), torch_generator(SEED)
    x = make_images(6)
    with torch.no_grad():
        each = torch.stack([teacher(View()(x, draws, noise)) for _ in range(11)])
    torch.testing.assert_close(few.predict(x), each[:8].mean(0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(many.predict(x), each.mean(0), rtol=1e-4, atol=1e-4)


def test_looking_does_not_use_up_random_numbers(tiny_net, make_images):
    adapter = build(tiny_net, confidence=2.0)
    x = make_images(8)
    looked = adapter.predict(x)
    assert torch.equal(looked, adapter.predict(x))
    assert torch.equal(looked, adapter(x))


def test_batch_size_one_and_half_precision_run(tiny_net, make_images):
    adapter = adapt(tiny_net, "cotta", precision="bf16", options={"views": 2, "confidence": 2.0})
    for t in range(3):
        assert adapter(make_images(1, seed=t)).isfinite().all()
    assert adapter.method.student.values.dtype == torch.float32
    assert (adapter.method.student.values - adapter.method.start).abs().max() > 0


def test_settings_that_cannot_be_are_sentences(tiny_net):
    with pytest.raises(ValueError, match="views must be at least 1, got 0"):
        build(tiny_net, views=0)
    with pytest.raises(ValueError, match="optimizer of cotta"):
        build(tiny_net, optimizer="adamw")
    with pytest.raises(ValueError, match="loss of cotta"):
        build(tiny_net, loss="mse")


@given(rate=st.sampled_from([0.0, 0.01, 0.3, 1.0]), seed=st.integers(0, 5))
def test_the_expected_share_goes_back_and_the_rest_stays(rate, seed):
    count = 40_000
    values, source = torch.full((count,), 2.0), torch.arange(count) + 10.0
    stochastic_restore(values, source, rate, torch.Generator().manual_seed(seed))
    back = values == source
    assert torch.equal(values[~back], torch.full((int((~back).sum()),), 2.0))
    spread = (rate * (1 - rate) / count) ** 0.5
    assert abs(float(back.float().mean()) - rate) <= 5 * spread


def test_every_call_draws_anew():
    generator = torch.Generator().manual_seed(0)
    masks = []
    for _ in range(2):
        values = torch.ones(1000)
        stochastic_restore(values, torch.zeros(1000), 0.5, generator)
        masks.append(values)
    assert not torch.equal(*masks)
