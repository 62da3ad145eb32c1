import copy
import math

import pytest
import torch
from torch import nn

from multipool.core import numpy_generator, torch_generator
from multipool.engine.replay import Replay
from multipool.methods import adapt, load
from multipool.methods.rmt import contrastive_loss, nearest_by_cosine
from multipool.ops import View

CLASSES, SEED, SIZE = 5, 3, 16


def cross_entropy(p, z):
    return -(p * z.log_softmax(1)).sum(1)


def symmetric(a, b):
    return cross_entropy(b.softmax(1), a) / 2 + cross_entropy(a.softmax(1), b) / 2


def features(net, x):
    found = []
    hook = net.fc.register_forward_hook(lambda m, i, o: found.append(i[0]))
    z = net(x)
    hook.remove()
    return found[0], z


class LiteralRMT:
    """methods.md 3.13 on whole networks; source batches, views and projector are given."""

    def __init__(self, model, source, projector, optimizer, warmup):
        self.student, self.teacher = (copy.deepcopy(model).train() for _ in range(2))
        self.teacher.requires_grad_(False)
        self.replay, self.taken = Replay(source, "toy", CLASSES, 1000, SIZE, SEED), 0
        with torch.no_grad():
            parts = [(features(self.student, x)[0], y) for x, y in self.replay.once()]
        h, y = torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])
        self.prototypes = torch.stack([h[y == c].mean(0) for c in range(CLASSES)])
        self.projector = projector
        parameters = [*self.student.parameters(), *projector.parameters()]
        if optimizer == "adam":
            self.lr = 1e-3
            self.optimizer = torch.optim.Adam(parameters, lr=self.lr)
        else:
            self.lr = 0.01
            self.optimizer = torch.optim.SGD(parameters, lr=self.lr, momentum=0.9, nesterov=True)
        self.draws, self.noise = numpy_generator(SEED, "draws", "rmt"), torch_generator(SEED)
        steps = len(y) // SIZE if warmup else 0
        for i in range(steps):
            self.optimizer.param_groups[0]["lr"] = self.lr * (i + 1) / steps
            x, _ = self.next()
            self.take(symmetric(self.student(x), self.teacher(x)).mean())
        self.optimizer.param_groups[0]["lr"] = self.lr

    def next(self):
        self.taken += 1
        return self.replay.batch(self.taken - 1)

    def take(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            for t, s in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                t.copy_(0.999 * t + 0.001 * s)

    def __call__(self, x):
        view = View()(x, self.draws, self.noise)
        f, z = features(self.student, x)
        g, zv = features(self.student, view)
        zt = self.teacher(x)
        loss = (symmetric(z, zt) / 2 + symmetric(zv, zt) / 2).mean() + self.contrast(f, g)
        images, labels = self.next()
        loss = loss + nn.functional.cross_entropy(self.student(images), labels)
        self.take(loss)
        return (z + zt).detach()

    def contrast(self, f, g):
        cosine = nn.functional.cosine_similarity(f.detach()[:, None], self.prototypes[None], dim=2)
        near = self.prototypes[cosine.argmax(1)]
        vectors = self.projector(torch.cat([near, f, g]))
        vectors = vectors / vectors.norm(dim=1, keepdim=True)
        count, total = len(f), 0.0
        similar = torch.exp(vectors @ vectors.T / 0.1)
        for a in range(3 * count):
            rest = similar[a].sum() - similar[a, a]
            for p in (a + count, a + 2 * count):
                total = total - torch.log(similar[a, p % (3 * count)] / rest) / 2
        return total / (3 * count)


def source(make_images):
    return [(make_images(24, seed=50 + i), (torch.arange(24) + i) % CLASSES) for i in range(3)]


def make(net, source, **options):
    options = {"source_batch": SIZE, "projection": 6, **options}
    return adapt(net, "rmt", source=source, seed=SEED, guard=False, options=options)


@pytest.mark.parametrize(("optimizer", "warmup"), [("adam", True), ("sgd", True), ("adam", False)])
def test_ten_steps_are_as_published(tiny_net, make_images, optimizer, warmup):
    data = source(make_images)
    options = {} if warmup else {"warmup_images": 0}
    if optimizer == "sgd":
        options |= {"optimizer": "sgd", "lr": 0.01}
    adapter = make(tiny_net, data, **options)
    projector = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 6))
    start = adapter.method.projector.leaves
    with torch.no_grad():
        for ours, theirs in zip(start, projector.parameters(), strict=True):
            theirs.copy_(ours)
    reference = LiteralRMT(tiny_net, data, projector, optimizer, warmup)
    # The projector was drawn from the generator that the views come from.
    reference.draws.bit_generator.state = adapter.method.draws.bit_generator.state
    torch.testing.assert_close(
        adapter.method.prototypes, reference.prototypes, rtol=1e-4, atol=1e-4
    )
    for t in range(10):
        x = make_images(12, seed=t)
        torch.testing.assert_close(adapter(x), reference(x), rtol=2e-3, atol=2e-3)
    assert adapter.method.numbers["replayed"] == reference.taken == 10 + 4 * warmup
    for ours, theirs in zip(adapter.method.projector.leaves, projector.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-3)


def test_without_source_replay_and_projector_it_learns_from_the_stream_alone(tiny_net, make_images):
    options = {"source_weight": 0.0, "projection": 0, "warmup_images": 0}
    adapter = make(tiny_net, source(make_images), **options)
    before = adapter.method.student.values.clone()
    adapter(make_images(12))
    assert adapter.method.numbers["replayed"] == 0
    assert not torch.equal(adapter.method.student.values, before)
    assert not any(name.startswith("projector") for name in adapter.state_dict())


def test_student_and_teacher_predict_together_before_they_learn(tiny_net, make_images):
    adapter = make(tiny_net, source(make_images), warmup_images=0)
    x = make_images(12)
    net = copy.deepcopy(tiny_net).train()
    with torch.no_grad():
        expected = 2 * net(x)  # both are the source still
    torch.testing.assert_close(adapter.predict(x), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(adapter(x), expected, rtol=1e-4, atol=1e-4)


def test_a_class_that_the_source_lacks_has_no_prototype(tiny_net, make_images):
    data = [(make_images(20), torch.arange(20) % 3)]
    adapter = make(tiny_net, data)
    assert adapter.method.prototypes[3:].abs().max() == 0
    assert adapter(make_images(8)).isfinite().all()


def test_loading_needs_the_source_again(tiny_net, make_images, tmp_path):
    adapter = make(tiny_net, source(make_images))
    adapter(make_images(12))
    adapter.save(tmp_path / "state")
    with pytest.raises(ValueError, match="source= .* also when loading, got NoneType"):
        load(tmp_path / "state", tiny_net)
    again = load(tmp_path / "state", tiny_net, source=source(make_images))
    for t in range(3):
        x = make_images(12, seed=t)
        assert torch.equal(adapter(x), again(x))


def test_an_update_that_fails_still_predicts(tiny_net, make_images):
    options = {"source_batch": SIZE, "projection": 6}
    adapter = adapt(tiny_net, "rmt", source=source(make_images), seed=SEED, options=options)
    x = make_images(12)
    expected, before = adapter.predict(x), adapter.method.student.values.clone()
    adapter.method.view = None
    assert torch.equal(adapter(x), expected)
    assert torch.equal(adapter.method.student.values, before)
    assert adapter.counts["skipped"] == 1


def test_single_images_and_half_precision_run(tiny_net, make_images):
    adapter = adapt(tiny_net, "rmt", source=source(make_images), precision="bf16")
    before = adapter.method.student.values.clone()
    for t in range(3):
        assert adapter(make_images(1, seed=t)).isfinite().all()
    assert not torch.equal(adapter.method.student.values, before)


def test_settings_that_cannot_be_are_sentences(tiny_net, make_images):
    with pytest.raises(ValueError, match="optimizer of rmt"):
        make(tiny_net, source(make_images), optimizer="lion")
    with pytest.raises(ValueError, match="source_images and source_batch must be at least 1"):
        make(tiny_net, source(make_images), source_batch=0)


@pytest.mark.parametrize(("views", "count"), [(3, 5), (2, 4), (3, 1)])
def test_the_contrastive_loss_is_its_definition(views, count):
    torch.manual_seed(0)
    vectors = torch.randn(views, count, 6, dtype=torch.float64)
    every = [(v, i) for v in range(views) for i in range(count)]
    unit = {k: vectors[k] / vectors[k].norm() for k in every}
    losses = []
    for anchor in every:
        others = [k for k in every if k != anchor]
        total = sum(math.exp(float(unit[anchor] @ unit[k]) / 0.1) for k in others)
        positives = [k for k in others if k[1] == anchor[1]]
        terms = [math.log(math.exp(float(unit[anchor] @ unit[k]) / 0.1) / total) for k in positives]
        losses.append(-sum(terms) / len(terms))
    expected = sum(losses) / len(losses)
    assert float(contrastive_loss(vectors, 0.1)) == pytest.approx(expected)


def test_views_that_agree_cost_less():
    torch.manual_seed(0)
    one = torch.randn(8, 16)
    alike, apart = torch.stack([one, one, one]), torch.stack([one, one.roll(1, 0), one.roll(2, 0)])
    assert contrastive_loss(alike, 0.1) < contrastive_loss(apart, 0.1)


def test_the_nearest_prototype_is_by_angle_and_never_an_absent_one():
    prototypes = torch.tensor([[10.0, 0.0], [0.0, 0.0], [0.0, -1.0]])
    features = torch.tensor([[0.1, 0.0], [-1.0, 0.2]])  # the second is at more than 90 degrees
    found = nearest_by_cosine(features, prototypes)
    assert torch.equal(found, prototypes[[0, 2]])


def test_the_gradient_is_finite_although_an_anchor_is_not_its_own_neighbour():
    vectors = torch.randn(3, 2, 4, requires_grad=True)
    contrastive_loss(vectors, 0.1).backward()
    assert vectors.grad.isfinite().all()
    assert vectors.grad.abs().max() > 0
