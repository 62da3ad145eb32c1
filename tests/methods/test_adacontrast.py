"""AdaContrast: ten steps against torch's own train mode, SGD and a growing list of neighbours."""

import copy

import pytest
import torch
from torch.nn import functional as F

from multipool.methods import adapt
from multipool.methods.adacontrast import contrast
from multipool.ops.strong import flipped, strong_view

QUEUE, AFTER = 500, 96
OPTIONS = {"queue": QUEUE, "neighbours": 3, "refine_after": AFTER, "lr": 1e-2}


class Literal:
    """Two networks in train mode, lists for the bank, loops over samples."""

    def __init__(self, net, method):
        self.net = copy.deepcopy(net)
        self.teacher = copy.deepcopy(net).train().requires_grad_(False)
        self.keys, self.labels = list(method.rings["keys"]), method.rings["labels"].tolist()
        self.bank, self.seen, self.draws = [], 0, copy.deepcopy(method.draws)
        self.optimizer = torch.optim.SGD(
            self.net.parameters(), lr=1e-2, momentum=0.9, nesterov=True, weight_decay=1e-4
        )

    def run(self, net, x):
        seen = []
        hook = net.fc.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        z = net(x)
        hook.remove()
        return z, seen[0]

    def pseudo_labels(self, z, features):
        if self.seen < AFTER:
            return z.argmax(1)
        found = []
        for f in features:
            near = sorted(self.bank, key=lambda row: -float(torch.cosine_similarity(f, row[0], 0)))
            found.append(sum(p for _, p in near[:3]).argmax())
        return torch.stack(found)

    def __call__(self, x):
        with torch.no_grad():
            answer = self.net.eval()(x)
        self.net.train()
        weak, query, key = flipped(x, self.draws), *(strong_view(x, self.draws) for _ in range(2))
        with torch.no_grad():
            labels = self.pseudo_labels(*self.run(self.net, weak))
        z, q = self.run(self.net, query)
        with torch.no_grad():
            for mine, theirs in zip(self.teacher.parameters(), self.net.parameters(), strict=True):
                mine.copy_(0.999 * mine + 0.001 * theirs)
            keys = F.normalize(self.run(self.teacher, key)[1], dim=1)
        old = list(self.keys)
        for i, (k, label) in enumerate(zip(keys, labels, strict=True)):
            self.keys[(self.seen + i) % QUEUE] = k
            self.labels[(self.seen + i) % QUEUE] = int(label)
        losses = []
        for i, row in enumerate(F.normalize(q, dim=1)):
            others = [o for o, label in zip(old, self.labels, strict=True) if label != labels[i]]
            scores = torch.stack([row @ keys[i], *(row @ o for o in others)]) / 0.07
            losses.append(-scores.log_softmax(0)[0])
        mean = z.softmax(1).mean(0)
        loss = F.cross_entropy(z, labels) + sum(losses) / len(x)
        loss = loss + (mean * (mean + 1e-8).log()).sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            z, features = self.run(self.teacher, weak)
        self.bank += list(zip(features, z.softmax(1), strict=True))
        self.seen += len(x)
        return answer


def test_eight_steps_do_what_the_definition_does(make_net, drift):
    adapter = adapt(make_net(), "adacontrast", guard=False, options=OPTIONS)
    reference = Literal(make_net(), adapter.method)
    start = adapter.method.student.values.clone()
    for x in drift(8, 24):
        torch.testing.assert_close(adapter(x), reference(x), rtol=2e-3, atol=2e-3)
    assert reference.seen > AFTER, "the neighbours were never asked"
    net, branch = reference.net, adapter.method.student.branch
    means = torch.cat(
        [t for b in (net.bn1, net.bn2, net.bn3) for t in (b.running_mean, b.running_var)]
    )
    torch.testing.assert_close(branch.statistics, means, rtol=1e-3, atol=1e-3)
    affine = torch.cat([t for b in (net.bn1, net.bn2, net.bn3) for t in (b.weight, b.bias)])
    torch.testing.assert_close(branch.affine, affine.detach(), rtol=1e-3, atol=1e-3)
    assert (adapter.method.student.values - start).abs().max() > 1e-2, "nothing was learned"


def test_the_rings_hold_the_newest_and_wrap(make_net, make_images):
    options = {"queue": 40, "neighbours": 2, "refine_after": 10}
    method = adapt(make_net(), "adacontrast", options=options).method
    before = {name: ring.clone() for name, ring in method.rings.items()}
    images = [make_images(30, seed=t) for t in range(2)]
    method._update(images[0])
    assert torch.equal(method.rings["keys"][30:], before["keys"][30:])
    assert (method.rings["features"][30:] == 0).all()
    method._update(images[1])
    assert int(method.seen) == 60
    middle = method.rings["features"][20:30].clone()
    method._update(images[0][:5])
    assert torch.equal(method.rings["features"][25:30], middle[5:])
    assert not torch.equal(method.rings["features"][20:25], middle[:5])


def test_a_batch_longer_than_the_queue_leaves_its_end(make_net, make_images):
    options = {"queue": 16, "neighbours": 2, "refine_after": 8}
    adapter = adapt(make_net(), "adacontrast", options=options)
    assert adapter(make_images(40)).isfinite().all()
    assert (adapter.method.rings["probabilities"].sum(1) - 1).abs().max() < 1e-5


def test_keys_of_the_same_class_are_no_negatives():
    query = F.normalize(torch.tensor([[1.0, 0.2]]), dim=1)
    others = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    all_ = contrast(query, query, others, torch.tensor([[True, True]]), 0.07)
    one = contrast(query, query, others, torch.tensor([[False, True]]), 0.07)
    none = contrast(query, query, others, torch.tensor([[False, False]]), 0.07)
    assert all_ > one > none
    assert float(none) == pytest.approx(0.0, abs=1e-6)


def test_more_neighbours_than_there_will_be_are_refused(make_net):
    with pytest.raises(ValueError, match="neighbours must be"):
        adapt(make_net(), "adacontrast", options={"queue": 5})
