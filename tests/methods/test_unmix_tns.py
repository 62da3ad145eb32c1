"""UnMix-TNS: mixing, un-mixing and the first components, one image and component at a time."""

import pytest
import torch
from torch import nn

from multipool.methods import adapt

K, TEMPERATURE = 4, 0.07


class Literal(nn.Module):
    """One layer as the paper writes it, a loop over images and components."""

    def __init__(self, layer, means, variances):
        super().__init__()
        self.layer, self.means, self.variances = layer, means.clone(), variances.clone()

    def forward(self, x):
        out, moves = torch.empty_like(x), torch.zeros(2, *self.means.shape)
        for b in range(len(x)):
            m, v = x[b].mean(dim=(1, 2)), x[b].var(dim=(1, 2), correction=0)
            p = torch.stack([torch.cosine_similarity(m, mean, dim=0) for mean in self.means])
            p = (p / TEMPERATURE).softmax(dim=0)
            means = [(1 - p[k]) * self.means[k] + p[k] * m for k in range(K)]
            variances = [(1 - p[k]) * self.variances[k] + p[k] * v for k in range(K)]
            mean = sum(means) / K
            var = sum(variances) / K + sum(a**2 for a in means) / K - mean**2
            scale = self.layer.weight / (var + self.layer.eps).sqrt()
            out[b] = (x[b] - mean[:, None, None]) * scale[:, None, None]
            out[b] += self.layer.bias[:, None, None]
            for k in range(K):
                moves[0, k] += p[k] * (m - self.means[k]) / len(x)
                moves[1, k] += p[k] * (v - self.variances[k]) / len(x)
        rate = 1 - (1 - 0.1) ** (len(x) / 64)
        self.means = self.means + rate * moves[0]
        self.variances = self.variances + rate * moves[1]
        return out


@torch.no_grad()
def test_ten_batches_do_what_the_equations_say(make_net, drift):
    adapter = adapt(make_net(), "unmix-tns", guard=False, options={"components": K})
    net, norm = make_net(), adapter.method.norm
    start = norm.means.clone()
    widths = [6, 8, 8]
    parts = zip(norm.means.split(widths, 1), norm.variances.split(widths, 1), strict=True)
    for name, (means, variances) in zip(("bn1", "bn2", "bn3"), parts, strict=True):
        setattr(net, name, Literal(getattr(net, name), means, variances))
    for x in drift():
        torch.testing.assert_close(adapter(x), net(x), rtol=2e-4, atol=2e-4)
    layers = (net.bn1, net.bn2, net.bn3)
    torch.testing.assert_close(norm.means, torch.cat([a.means for a in layers], 1))
    torch.testing.assert_close(norm.variances, torch.cat([a.variances for a in layers], 1))
    assert (norm.means - start).abs().max() > 1e-2, "nothing moved"


def test_the_first_components_have_the_moments_of_the_source(make_net):
    method = adapt(make_net(), "unmix-tns", options={"components": 4000}).method
    mean = torch.cat([s.mean for s in method.branch.layers])
    var = torch.cat([s.var for s in method.branch.layers])
    found = method.norm.means
    torch.testing.assert_close(found.mean(0), mean, rtol=0, atol=0.05)
    whole = found.var(0, correction=0) + method.norm.variances.mean(0)
    torch.testing.assert_close(whole, var, rtol=0.08, atol=0)
    assert torch.equal(method.norm.variances, 0.5 * var.expand(4000, -1))


def test_one_component_begins_as_the_source(make_net):
    norm = adapt(make_net(), "unmix-tns", options={"components": 1}).method.norm
    source = make_net()
    assert torch.equal(norm.means[0, :6], source.bn1.running_mean)
    assert torch.equal(norm.variances[0, 6:14], source.bn2.running_var)


def test_looking_moves_nothing_and_says_what_the_next_call_says(make_net, make_images):
    adapter = adapt(make_net(), "unmix-tns")
    x = make_images(32)
    before = adapter.method.norm.means.clone()
    looked = adapter.predict(x)
    assert torch.equal(adapter.method.norm.means, before)
    assert torch.equal(adapter(x), looked)
    assert not torch.equal(adapter.method.norm.means, before)


def test_one_dimensional_layers_keep_the_sources_statistics(make_images):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 7), nn.BatchNorm1d(7), nn.Linear(7, 5)).eval()
    adapter, x = adapt(net, "unmix-tns"), make_images(16)
    for _ in range(2):
        torch.testing.assert_close(adapter(x), net(x).detach())


@pytest.mark.parametrize(
    "options", [{"components": 0}, {"rate": 1.0}, {"spread": 1.0}, {"temperature": 0.0}]
)
def test_settings_without_meaning_are_refused(make_net, options):
    with pytest.raises(ValueError, match="unmix-tns"):
        adapt(make_net(), "unmix-tns", options=options)
