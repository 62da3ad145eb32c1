"""LAME against methods.md 3.5, written with loops over samples."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from multipool.methods import adapt
from multipool.methods.lame import AFFINITIES, knn_affinity, rbf_affinity, refine


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


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def objective(y, z, w):
    """Return sum Y (log Y - A) - 1/2 tr(Y' W Y), what the fixed point minimises."""
    a = torch.log(z.softmax(1) + 1e-10)
    y, a, w = y.double(), a.double(), w.double()
    return float((y * (y.clamp_min(1e-20).log() - a)).sum() - (y * (w @ y)).sum() / 2)


@given(st.integers(2, 20), st.integers(2, 6), st.integers(0, 30))
def test_each_iteration_lowers_the_objective(count, classes, seed):
    z = 2 * draw(count, classes, seed=seed)
    w = rbf_affinity(draw(count, 8, seed=seed + 1), 5)
    values = [objective(refine(z, w, steps=t, tolerance=0.0), z, w) for t in range(12)]
    assert all(b <= a + 1e-5 for a, b in zip(values, values[1:], strict=False))


def test_it_ends_at_a_fixed_point_of_rows_that_sum_to_one():
    z, w = 2 * draw(20, 5), rbf_affinity(draw(20, 8, seed=1), 5)
    y = refine(z, w)
    again = (torch.log(z.softmax(1) + 1e-10) + w @ y).softmax(1)
    torch.testing.assert_close(again, y, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(y.sum(1), torch.ones(20))


def test_without_neighbours_it_returns_what_it_got():
    z = draw(6, 4)
    torch.testing.assert_close(refine(z, torch.zeros(6, 6)), z.softmax(1))


def test_a_doubtful_sample_follows_its_neighbours():
    features = torch.tensor([[1.0, 0.0], [1.0, 0.02], [1.0, 0.01], [0.0, 1.0], [0.02, 1.0]])
    z = torch.tensor([[3.0, 0.0], [3.0, 0.0], [0.0, 0.2], [0.0, 3.0], [0.0, 3.0]])
    y = refine(z, knn_affinity(features, 2))
    assert int(z[2].argmax()) == 1
    assert int(y[2].argmax()) == 0


@given(st.integers(1, 15), st.integers(1, 7), st.integers(0, 20))
def test_each_row_has_k_nearest_neighbours_and_never_itself(count, k, seed):
    f = draw(count, 6, seed=seed)
    w = knn_affinity(f, k)
    assert (w.sum(1) == min(k, count - 1)).all()
    assert not w.diagonal().any()
    unit = torch.nn.functional.normalize(f, dim=1)
    d = torch.cdist(unit, unit) + 10 * torch.eye(count)
    far, near = (d * w).amax(1), torch.where(w > 0, torch.inf, d).amin(1)
    assert (far <= near + 1e-4).all()


def test_a_duplicate_does_not_make_a_sample_its_own_neighbour():
    f = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert knn_affinity(f, 1)[:2].tolist() == [[0, 1, 0], [1, 0, 0]]


def test_the_kernels_width_is_the_mean_distance_to_the_kth_nearest_itself_counted():
    f = draw(8, 4)
    unit = f / f.norm(dim=1, keepdim=True)
    d = torch.stack([(unit - u).norm(dim=1) for u in unit])
    width = d.sort(dim=1).values[:, 2].mean()
    torch.testing.assert_close(rbf_affinity(f, 3), torch.exp(-d.square() / (2 * width**2)))


@pytest.mark.parametrize("name", AFFINITIES)
def test_one_image_and_equal_images_stay_finite(name):
    for f in (draw(1, 4), draw(1, 4).expand(6, 4), torch.zeros(3, 4)):
        y = refine(draw(len(f), 3), AFFINITIES[name](f, 5))
        assert y.isfinite().all()
