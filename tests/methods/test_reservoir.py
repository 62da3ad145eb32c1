"""ReservoirTTA: styles, clusters, and models that learn, each against a plain reading."""

import copy

import numpy as np
import pytest
import torch

from multipool.methods import adapt, load
from multipool.methods.reservoir import styles
from multipool.methods.reservoir.clusters import Clusters, spread_loss
from multipool.ops import Network
from odd_nets import make_odd_net

# Two brightnesses are far apart, two batches of one are not.
OPTIONS = {"batch_size": 32, "models": 3, "buffer": 12, "loss": "tent", "quantile": 1.0}


@pytest.fixture
def build(make_net, make_images):
    def make(**options):
        source = [(make_images(48, seed=70 + i), torch.zeros(48)) for i in range(4)]
        return adapt(
            make_net(), "reservoir", source=source, guard=False, options={**OPTIONS, **options}
        )

    return make


def dark(images):
    return images * 0.25


def variances(net, images):
    """Return the log-variance of each channel in front of the layers, over batch and space."""
    seen = []
    hooks = [
        layer.register_forward_pre_hook(lambda _, x: seen.append(x[0]))
        for layer in (net.bn1, net.bn2, net.bn3)
    ]
    with torch.no_grad():
        net(images)
    [hook.remove() for hook in hooks]
    return torch.cat([x.var(dim=(0, 2, 3), correction=0).log() for x in seen])


def test_a_style_is_the_log_variance_in_front_of_the_first_layers(tiny_net, make_images):
    x = make_images(20)
    network = Network(tiny_net)
    found = styles.style(styles.moments(network, x))
    torch.testing.assert_close(found, variances(tiny_net, x), rtol=1e-4, atol=1e-5)


def test_a_black_batch_has_a_finite_style(tiny_net):
    assert styles.style(styles.moments(Network(tiny_net), torch.zeros(4, 3, 8, 8))).isfinite().all()


def test_layers_that_the_model_never_runs_are_passed_over(make_images):
    network, x = Network(make_odd_net("spare")), make_images(4)
    found = styles.moments(network, x)  # of the first and the fourth layer
    means = [network.before_norm(x, index).double().mean(dim=(2, 3)) for index in (0, 3)]
    torch.testing.assert_close(found[:, 0], torch.cat(means, dim=1))


def test_source_styles_are_those_of_random_batches(tiny_net, make_images):
    x = make_images(60)
    found = styles.source_styles(Network(tiny_net), [x[:40], x[40:]], 30, np.random.default_rng(3))
    order = np.random.default_rng(3).permutation(60)
    assert found.shape == (1000, 22)
    for i in range(2):
        expected = variances(tiny_net, x[order[30 * i : 30 * i + 30]])
        torch.testing.assert_close(found[i], expected, rtol=1e-4, atol=1e-5)


def test_the_threshold_is_a_quantile_of_the_distances():
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    pairs = [float((points[i] - points[j]).norm()) for i in range(40) for j in range(i)]
    expected = np.quantile(pairs, 0.9)
    np.testing.assert_allclose(float(styles.threshold(points, 0.9)), expected, rtol=1e-5)


class LiteralClusters:
    """Centroids as parameters of torch's own AdamW, made anew with each cluster."""

    def __init__(self, source, threshold, most, share):
        self.source, self.threshold, self.most, self.share = source, threshold, most, share
        self.offsets, self.known, self.seen = torch.zeros(1, len(source)), [], 0
        self.renew()

    def renew(self):
        self.offsets = self.offsets.detach().requires_grad_()
        self.optimizer = torch.optim.AdamW([self.offsets], lr=1e-4)

    def __call__(self, style, draws):
        gaps = (style - self.source - self.offsets.detach()).norm(dim=1)
        if gaps.min() > self.threshold and len(gaps) < self.most:
            self.offsets = torch.cat([self.offsets.detach(), (style - self.source)[None]])
            self.renew()
        known = torch.stack([*self.known, style])
        p = (-torch.cdist(known, self.offsets + self.source)).softmax(1)
        mean = p.mean(0)
        loss = -(p * p.log()).sum(1).mean() + (mean * (mean + 1e-8).log()).sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        capacity = self.share * len(self.offsets)
        if len(self.known) < capacity:
            self.known.append(style)
        else:
            place = int(draws.integers(self.seen))
            if place < capacity:
                self.known[place] = style
            if self.seen > 10 * capacity:
                self.seen = capacity
        self.seen += 1
        return p[-1].detach()


def test_clusters_are_found_and_moved_as_by_adamw_and_styles_sampled():
    rng = torch.Generator().manual_seed(1)
    source = torch.randn(5, generator=rng)
    ours = Clusters(source, torch.tensor(3.0), most=3, buffer=6)
    literal = LiteralClusters(source, 3.0, 3, 2)
    draws, again = np.random.default_rng(5), np.random.default_rng(5)
    for t in range(80):
        style = source + torch.randn(5, generator=rng) + 4 * (t // 10 % 4) * torch.eye(5)[0]
        match = ours.match(style, may_found=True)
        torch.testing.assert_close(match.weights, literal(style, again), rtol=1e-4, atol=1e-5)
        ours.learn(match, draws)
    assert len(ours) == 3
    torch.testing.assert_close(ours.offsets, literal.offsets.detach(), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(ours.styles, torch.stack(literal.known))
    assert ours.offsets[0].abs().max() > 1e-3, "the first centroid never moved"


def test_the_loss_is_least_where_styles_are_parted_and_all_centroids_used():
    points = torch.tensor([[0.0], [0.0], [9.0], [9.0]])
    parted = spread_loss(points, torch.tensor([[0.0], [9.0]]))
    assert parted < spread_loss(points, torch.tensor([[0.0], [1.0]]))
    assert parted < spread_loss(points, torch.tensor([[0.0], [99.0]]))


def test_a_new_style_founds_a_model_and_an_old_one_finds_its_own_again(build, make_images):
    adapter = build()
    clusters, affine = adapter.method.clusters, adapter.method.models["affine"]
    for t in range(4):
        adapter(make_images(32, seed=t))
    assert len(clusters) == 1
    bright = affine[0].clone()
    for t in range(4):
        adapter(dark(make_images(32, seed=10 + t)))
    assert len(clusters) == 2
    assert torch.equal(affine[0], bright), "another style's model learned"
    assert not torch.equal(affine[1], bright)
    other = affine[1].clone()
    adapter(make_images(32, seed=20))
    assert torch.equal(affine[1], other)
    assert not torch.equal(affine[0], bright)


class Literal:
    """Every model a network of its own with an optimiser of its own, told which style it is."""

    def __init__(self, make, clusters):
        self.make, self.clusters = make, copy.deepcopy(clusters)
        self.models = [self.fresh()]

    def fresh(self):
        net, affine = self.make()
        return net, affine, torch.optim.Adam(affine, lr=1e-3)

    def information(self, net, x):
        p = net(x).softmax(1)
        mean = p.mean(0)
        return float(-(p * p.log()).sum(1).mean() + (mean * (mean + 1e-8).log()).sum())

    def __call__(self, x, style, draws):
        match = self.clusters.match(style, may_found=len(x) >= 32)
        if match.new:
            with torch.no_grad():
                best = min(
                    range(len(self.models)), key=lambda i: self.information(self.models[i][0], x)
                )
            net, affine, optimizer = self.fresh()
            parent = self.models[best]
            for mine, theirs in zip(affine, parent[1], strict=True):
                mine.data.copy_(theirs.data)
            optimizer.load_state_dict(copy.deepcopy(parent[2].state_dict()))
            self.models.append((net, affine, optimizer))
        mixed, values, _ = self.fresh()
        for i, value in enumerate(values):
            parts = zip(match.weights, (m[1][i] for m in self.models), strict=True)
            value.data.copy_(sum(weight * p.data for weight, p in parts))
        answer = mixed(x).detach()
        net, _, optimizer = self.models[int(match.weights.argmax())]
        z = net(x)
        optimizer.zero_grad()
        (-(z.softmax(1) * z.log_softmax(1)).sum(1).mean()).backward()
        optimizer.step()
        self.clusters.learn(match, draws)
        return answer


def test_twelve_batches_do_what_separate_networks_do(build, batch_copy, make_net, make_images):
    adapter = build()
    reference = Literal(lambda: batch_copy(make_net()), adapter.method.clusters)
    draws = copy.deepcopy(adapter.method.draws)
    for t in range(12):
        x = make_images(32 if t != 7 else 9, seed=t)
        x = [x, dark(x), x * 0.05][t // 2 % 3]
        style = styles.style(styles.moments(adapter.network, x))
        torch.testing.assert_close(adapter(x), reference(x, style, draws), rtol=2e-4, atol=2e-4)
    assert len(reference.models) == 3
    for row, (_, affine, _) in zip(adapter.method.models["affine"], reference.models, strict=True):
        now = torch.cat([p.detach() for p in affine])
        torch.testing.assert_close(row, now, rtol=1e-3, atol=1e-4)


def test_with_one_model_it_is_eata(make_net, make_images):
    source = (make_images(96, seed=7), torch.arange(96) % 5)
    alike = {"fisher_weight": 2.0, "entropy_margin": 0.6, "redundancy": 0.9}
    one = adapt(
        make_net(), "reservoir", source=source, options={"models": 1, "batch_size": 48, **alike}
    )
    fisher = {"fisher_batch": 48, **alike}
    other = adapt(make_net(), "eata", source=source, options=fisher)
    for t in range(5):
        x = make_images(48, seed=t)
        torch.testing.assert_close(one(x), other(x))
    torch.testing.assert_close(one.method.models["affine"][0], other.method.student.affine)


def test_a_small_batch_founds_no_model(build, make_images):
    adapter = build()
    adapter(make_images(32))
    adapter(dark(make_images(31)))
    assert len(adapter.method.clusters) == 1
    adapter(dark(make_images(32)))
    assert len(adapter.method.clusters) == 2


def test_looking_at_a_new_style_founds_nothing_and_says_what_comes(build, make_images):
    adapter = build()
    adapter(make_images(32))
    x = dark(make_images(32, seed=1))
    looked = adapter.predict(x)
    assert len(adapter.method.clusters) == 1
    assert torch.equal(adapter(x), looked)
    assert len(adapter.method.clusters) == 2


def test_loaded_without_source_data_it_goes_on(build, make_net, make_images, tmp_path):
    adapter = build(loss="eata")
    for t in range(3):
        adapter(make_images(32, seed=t))
    adapter.save(tmp_path / "state.safetensors")
    again = load(tmp_path / "state.safetensors", make_net())
    x = dark(make_images(32, seed=9))
    assert torch.equal(adapter(x), again(x))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": 0}, "models must be"),
        ({"models": 9, "buffer": 8}, "models must be"),
        ({"quantile": 1.5}, "quantile"),
        ({"loss": "sar"}, "loss of reservoir"),
    ],
)
def test_settings_without_meaning_are_refused(build, options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)


def test_one_source_image_is_too_few(make_net, make_images):
    with pytest.raises(ValueError, match="at least 2 source images, got 1"):
        adapt(make_net(), "reservoir", source=(make_images(1), torch.zeros(1)))
