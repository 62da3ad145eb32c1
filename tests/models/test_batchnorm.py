"""BatchNorm put into models without: nothing changes until it is adapted, then what should does."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from kinds import WITHOUT_STATISTICS, make_kind_net
from libraries import package
from multipool import adapt, load, methods, models
from multipool.data.corruptions import corrupt
from multipool.models.batchnorm import WithBatchNorm
from multipool.testing import random_images, source_batches


class Tokens(nn.Module):
    """Torch's own transformer layer; images are its first axis, or its second."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 2, 2)  # 16 tokens of 16 channels: which axis is which?
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=first)
        self.fc, self.first = nn.Linear(16, 5), first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)  # (B, 16, 16)
        x = self.layer(x) if self.first else self.layer(x.transpose(0, 1)).transpose(0, 1)
        return self.fc(x.mean(dim=1))


def tokens(first: bool) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Tokens(first).eval()


NETS = {kind: (lambda kind=kind: make_kind_net(kind)) for kind in WITHOUT_STATISTICS} | {
    "mixed": lambda: make_kind_net("groupnorm", "batchnorm"),
    "images first": lambda: tokens(True),
    "images second": lambda: tokens(False),
}


@pytest.fixture(params=NETS)
def net(request):
    return NETS[request.param]()


def put_in(model: nn.Module) -> list[WithBatchNorm]:
    return [m for m in model.modules() if isinstance(m, WithBatchNorm)]


def test_answers_stay_the_same_and_the_model_is_not_touched(net):
    before = copy.deepcopy(net.state_dict())
    with torch.no_grad():
        made = models.with_batchnorm(net, random_images(40))
        assert torch.allclose(made(random_images(6, 1)), net(random_images(6, 1)), atol=1e-4)
    assert put_in(made)
    assert not put_in(net)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_statistics_are_those_of_what_the_layer_is_given():
    net, images = make_kind_net("groupnorm"), random_images(600)
    with torch.no_grad():
        made = models.with_batchnorm(net, images, most=500)
        given = net.conv1(images[:500]).double()  # (500, 6, 8, 8)
    layer = made.norm1.batchnorm
    mean = given.mean(dim=(0, 2, 3))
    var = (given - mean[:, None, None]).square().mean(dim=(0, 2, 3))
    assert torch.allclose(layer.running_mean.double(), mean, atol=1e-6)
    assert torch.allclose(layer.running_var.double(), var, rtol=1e-5)


def test_statistics_of_tokens_are_taken_channel_by_channel():
    net, images = tokens(True), random_images(50)
    seen = []
    net.layer.norm1.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    # With a hook torch does not take its fused path, in which no layer is called.
    with torch.no_grad():
        net(images)
        made = models.with_batchnorm(net, images)
    assert torch.allclose(made.layer.norm1.batchnorm.running_mean, seen[0].mean((0, 1)), atol=1e-5)


def test_torchs_fused_transformer_layer_does_not_pass_it_by():
    made = models.with_batchnorm(tokens(True), random_images(50))
    with torch.no_grad():
        before = made(random_images(4))
        made.layer.norm1.batchnorm.running_mean[0] += 3  # of all channels LayerNorm would undo
        assert not torch.allclose(made(random_images(4)), before, atol=1e-2)


def test_a_brighter_stream_looks_like_the_source_again():
    """Contrast and brightness are a scale and a shift of a first convolution's channels."""
    net, images = make_kind_net("groupnorm"), random_images(64)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net.conv1 = nn.Conv2d(3, 6, 1, bias=False)  # without borders a shift is the same everywhere
    shifted = images * 0.4 + 0.5
    with torch.no_grad():
        wanted, made = net(images), models.with_batchnorm(net, images)
        alone, adapted = (adapt(made, name)(shifted) - wanted for name in ("source", "bn"))
    assert adapted.abs().max() < 0.1 * alone.abs().max()


@pytest.mark.parametrize("kind", ["groupnorm", "layernorm"])
@pytest.mark.parametrize("method", methods.METHODS)
def test_every_method_takes_it(method, kind):
    made = models.with_batchnorm(make_kind_net(kind), random_images(40))
    adapter = adapt(made, method, source=source_batches())
    for seed in range(2):
        assert adapter(random_images(20, seed)).isfinite().all()


def test_multipool_keeps_pools_and_goes_on_where_it_stopped(tmp_path):
    made = models.with_batchnorm(make_kind_net("layernorm"), random_images(40))
    adapter = adapt(made)
    adapter(random_images(32))
    assert adapter.pools
    adapter.save(tmp_path / "state.safetensors")
    again = load(tmp_path / "state.safetensors", made)
    assert torch.equal(again(random_images(32, 1)), adapter(random_images(32, 1)))


def test_multipool_takes_short_steps_where_there_are_other_norms(monkeypatch):
    rates = []
    monkeypatch.setattr(
        "multipool.methods.multipool.passes.Learning",
        lambda source, classes, lr: rates.append(lr),
    )
    for net in (make_kind_net("batchnorm"), make_kind_net("batchnorm", "layernorm")):
        adapt(net)
    assert rates == [0.004, 0.0003]


@pytest.mark.parametrize("name", ["wrn28-1-gn", "vit-tiny-32"])
def test_it_is_saved_and_loaded_with_the_weights(name, tmp_path):
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    made = models.with_batchnorm(models.build(name, 10), images)
    models.save(made, tmp_path / "m.safetensors", {"architecture": name})
    again = models.load(tmp_path / "m.safetensors")
    with torch.no_grad():
        assert torch.equal(again(images), made(images))
    assert len(put_in(again)) == len(put_in(made)) > 0


def test_it_is_loaded_into_a_model_of_the_users_own(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n\n\ndef make():\n    return nn.Sequential(nn.Conv2d(3, 4, 3), "
        "nn.GroupNorm(2, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))\n"
    )
    architecture = f"{tmp_path / 'mine.py'}:make"
    made = models.with_batchnorm(models.load(architecture), random_images(9))
    torch.save(made.state_dict(), tmp_path / "m.pt")
    again = models.load(tmp_path / "m.pt", architecture=architecture)
    assert torch.equal(again(random_images(3)), made(random_images(3)))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("vit_tiny_patch16_224", {"img_size": 32, "patch_size": 8, "depth": 2}),
        ("convnext_atto", {}),
    ],
)
def test_models_of_timm_are_measured_on_every_layer(name, options):
    net = package("timm").create_model(name, num_classes=5, **options).eval()
    norms = [m for m in net.modules() if isinstance(m, nn.LayerNorm)]
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        made = models.with_batchnorm(net, images)
        assert torch.allclose(made(images), net(images), atol=1e-4)
    assert len(put_in(made)) == len(norms)


def test_real_images_out_of_focus_are_told_apart_again(shared):
    name, count = "cifar10-wrn28-1-gn", 256
    test, train = (shared / "data" / f"cifar10_{part}.npz" for part in ("test", "train2k"))
    if not (test.is_file() and train.is_file()):
        pytest.skip("the images of CIFAR-10 are not in the shared folder")
    rows = np.random.default_rng(0).permutation(10_000)[:count]
    arrays, clean = np.load(test), np.load(train)["images"][::10]
    blurred = corrupt(arrays["images"][rows], "gaussian_blur", seed=0)
    images, source = (
        torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous() for pixels in (blurred, clean)
    )
    labels, net = torch.from_numpy(arrays["labels"][rows]), models.load(name)
    wrong = []
    for model in (net, models.with_batchnorm(net, source)):
        adapter = adapt(model, decode="none")
        answers = torch.cat([adapter(part) for part in images.split(64)]).argmax(dim=1)
        wrong.append((answers != labels).float().mean())
    assert wrong[1] < wrong[0] - 0.1  # 26 and 48 per cent, when it was written


@pytest.mark.parametrize("layout", [[0, 0, 4], [0, 1, 7], [0, 4, 4], [0, 1], [[0, 1, 4]]])
def test_a_layout_that_makes_no_sense_is_refused(layout, tmp_path):
    images = torch.rand(4, 3, 32, 32)
    made = models.with_batchnorm(models.build("wrn28-1-gn", 10), images)
    tensors = made.state_dict()
    tensors["bn1.layout"] = torch.tensor(layout)
    torch.save(tensors, tmp_path / "m.pt")
    with pytest.raises(ValueError, match=r"^the BatchNorm saved in front of 'bn1' does not fit"):
        models.load(tmp_path / "m.pt", architecture="wrn28-1-gn")


def test_a_layer_in_two_places_stays_one_and_one_that_is_not_run_stays_alone():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4)
            self.same, self.spare, self.fc = self.norm, nn.GroupNorm(2, 4), nn.Linear(4, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.same(torch.relu(self.norm(self.conv(x)))).mean(dim=(2, 3)))

    made = models.with_batchnorm(Twice(), random_images(9))
    assert made.norm is made.same
    assert isinstance(made.norm, WithBatchNorm)
    assert isinstance(made.spare, nn.GroupNorm)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (random_images(1), "images must hold at least 2 source images to take a variance, got 1"),
        (random_images(4) * 300, "images must lie in"),
        (torch.rand(4, 1, 8, 8), "1 channel"),
        (3, "^images must be an iterable of .* a pair of arrays, got int"),
    ],
)
def test_images_that_cannot_be_measured_are_refused(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        models.with_batchnorm(make_kind_net("groupnorm"), given)


def test_a_model_with_nothing_to_add_to_is_refused():
    with pytest.raises(ValueError, match="^KindNet has no normalisation layer without statistics"):
        models.with_batchnorm(make_kind_net("batchnorm"), random_images(4))
    with pytest.raises(ValueError, match="^most must be at least 2 images"):
        models.with_batchnorm(make_kind_net("groupnorm"), random_images(4), most=1)


def test_multipool_trusts_a_pool_of_tokens_four_times_as_soon():
    made = {
        kind: models.with_batchnorm(make_kind_net(kind), random_images(40))
        for kind in ("layernorm", "groupnorm")
    }
    priors = [adapt(net).method.prior for net in (*made.values(), make_kind_net("batchnorm"))]
    assert priors == [4.0, 16.0, 16.0]
    # Few BatchNorm layers before LayerNorm are none that were put in front of each.
    assert adapt(make_kind_net("batchnorm", "layernorm")).method.prior == 16.0
