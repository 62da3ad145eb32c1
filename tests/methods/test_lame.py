"""LAME against methods.md 3.5, written with loops over samples."""

import pytest
import torch
from torch import nn

from multipool.methods import adapt


def affinity(f, kind, k):
    f = f / f.norm(dim=1, keepdim=True)
    n = len(f)
    d = torch.stack([torch.stack([(f[i] - f[j]).norm() for j in range(n)]) for i in range(n)])
    w = torch.zeros(n, n)
    if kind == "knn":
        for i in range(n):
            for j in d[i].argsort()[1 : k + 1]:
                w[i, j] = 1
        return w
    sigma = torch.stack([d[i].sort().values[k - 1] for i in range(n)]).mean()
    return torch.exp(-(d**2) / (2 * sigma**2))


def literal(net, x, kind, k=5):
    seen = []
    hook = net.fc.register_forward_hook(lambda m, i, o: seen.append(i[0]))
    with torch.no_grad():
        z = net(x)
    hook.remove()
    w = affinity(seen[0], kind, k)
    a = torch.log(z.softmax(1) + 1e-10)
    y, old = a.softmax(1), None
    for step in range(100):
        q = w @ y
        y = (a + q).softmax(1)
        e = (-a * y - q * y + y * torch.log(y.clamp_min(1e-20))).sum()
        if step > 1 and abs(e - old) <= 1e-8 * abs(old):
            break
        old = e
    return y


@pytest.mark.parametrize("kind", ["knn", "rbf"])
def test_ten_batches_are_refined_as_defined(tiny_net, drift, kind):
    adapter = adapt(tiny_net, "lame", options={"affinity": kind})
    for x in drift(10, 24):
        y = literal(tiny_net, x, kind)
        torch.testing.assert_close(adapter(x).exp(), y, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["knn", "rbf"])
def test_a_batch_of_one_is_the_source_models(tiny_net, make_images, kind):
    x = make_images(1)
    adapter = adapt(tiny_net, "lame", options={"affinity": kind})
    torch.testing.assert_close(adapter(x).exp(), tiny_net(x).softmax(1).detach())


def test_it_remembers_nothing(tiny_net, make_images):
    adapter = adapt(tiny_net, "lame")
    first = adapter(make_images(16))
    adapter(make_images(16, seed=5))
    assert torch.equal(adapter(make_images(16)), first)
    assert adapter.counts["updates"] == 0


def test_it_runs_without_batchnorm_but_not_without_a_last_linear_layer(make_images):
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
    assert adapt(net, "lame")(make_images(4)).shape == (4, 5)
    net = nn.Sequential(nn.Conv2d(3, 5, 8), nn.Flatten())
    with pytest.raises(ValueError, match="end the model with torch.nn.Linear"):
        adapt(net, "lame", num_classes=5)(make_images(4))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"affinity": "rbff"}, "did you mean 'rbf'"), ({"neighbours": 0}, "at least 1, got 0")],
)
def test_wrong_options_are_sentences(tiny_net, options, message):
    with pytest.raises(ValueError, match=message):
        adapt(tiny_net, "lame", options=options)
