"""Images of a shape that the model or a bank does not take: a sentence, and nothing changed."""

import pytest
import torch
from torch import nn

from multipool import adapt
from multipool.methods import METHODS
from multipool.models import wrap
from multipool.testing import random_images, source_batches, tiny_net

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.2, 0.2)


class OneSize(nn.Module):
    """Takes images of 8x8 pixels only."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 8 * 8, 5)

    def forward(self, images):
        return self.fc(torch.relu(self.norm(self.conv(images))).flatten(1))


class Grey(nn.Module):
    """Takes images of one channel and makes colours of them, whatever it is given."""

    def __init__(self):
        super().__init__()
        self.net = tiny_net()

    def forward(self, images):
        return self.net(images.repeat(1, 3, 1, 1))


def refused(adapter, images):
    """Return the sentence, after a look at everything that may have moved."""
    state, counts = adapter.state_dict(), adapter.counts
    with pytest.raises(ValueError, match=r"\S") as caught:
        adapter(images)
    after = adapter.state_dict()
    assert after.keys() == state.keys()
    assert [name for name in state if not torch.equal(state[name], after[name])] == []
    assert adapter.counts == counts
    return str(caught.value)


@pytest.mark.parametrize("guard", [True, False])
@pytest.mark.parametrize("name", METHODS)
def test_another_size_or_number_of_channels_changes_nothing(name, guard):
    adapter = adapt(OneSize().eval(), name, source=source_batches(), guard=guard)
    for _ in range(2):
        assert "channels" in refused(adapter, random_images(6, channels=4)) or adapter.memory
        refused(adapter, random_images(6, side=12))
        adapter(random_images(16))


@pytest.mark.parametrize("name", ["multipool", "rotta", "note"])
def test_a_bank_of_one_shape_refuses_another_that_the_model_would_take(name):
    adapter = adapt(tiny_net(), name)
    adapter(random_images(64))
    said = refused(adapter, random_images(6, side=12))
    assert said == (
        "images must have shape (B, 3, 8, 8) as those before, got (6, 3, 12, 12); "
        "give all images one shape"
    )
    adapter.reset()
    assert adapter(random_images(6, side=12)).isfinite().all()


@pytest.mark.parametrize("name", ["multipool", "tent", "source"])
def test_grey_images_are_not_broadcast_by_the_normalisation_in_front(name):
    adapter = adapt(wrap(tiny_net(), MEAN, STD), name)
    said = refused(adapter, random_images(6, channels=1))
    assert "takes images of 3 channels, got 1; pass images.expand(-1, 3, -1, -1)" in said
    assert adapter(random_images(6, channels=1).expand(-1, 3, -1, -1)).isfinite().all()


def test_a_model_that_makes_colours_of_grey_images_gets_them():
    images = random_images(6, channels=1)
    wanted = tiny_net()(images.expand(-1, 3, -1, -1))
    torch.testing.assert_close(adapt(Grey(), "source")(images), wanted)


def test_types_that_torch_only_stores_are_refused():
    images = random_images(4).to(torch.float8_e4m3fn)
    adapter = adapt(tiny_net(), "rotta")
    assert "images must be float in [0, 1] or uint8, got" in refused(adapter, images)
    with pytest.raises(ValueError, match="images must be float"):
        adapter.memory.add(images)


@pytest.mark.parametrize("name", ["lame", "neo", "multipool"])
def test_features_are_found_under_autocast(name):
    adapter = adapt(tiny_net(), name)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert adapter(random_images(16)).dtype == torch.float32
