import pytest
import torch
from torch import nn

from multipool.engine.statistics import gather
from multipool.methods import adapt, load
from multipool.ops import Network


def split(net, x):
    """Return penultimate features and the last layer of a tiny network."""
    found = []
    hook = net.fc.register_forward_hook(lambda m, i, o: found.append(i[0]))
    with torch.no_grad():
        net(x)
    hook.remove()
    return found[0], net.fc


def batches(make_images, sizes=(64, 3, 1, 64, 7, 64, 64, 2, 64, 64)):
    return [make_images(n, seed=i) * (0.4 + 0.05 * i) for i, n in enumerate(sizes)]


@pytest.mark.parametrize("variant", ["cumulative", "continual"])
def test_ten_steps_are_those_of_the_release(tiny_net, make_images, variant):
    adapter = adapt(tiny_net, "neo", options={"variant": variant})
    mean, count = torch.zeros(8), 0
    for x in batches(make_images):
        h, head = split(tiny_net, x)
        if variant == "cumulative":
            mean = (count * mean + h.sum(0)) / (count + len(x))
        else:
            mean = 0.9 * mean + 0.1 * h.mean(0)
        count += len(x)
        expected = (h - mean) @ head.weight.T + head.bias
        torch.testing.assert_close(adapter(x), expected, rtol=1e-4, atol=1e-4)


def test_the_first_image_of_all_gets_the_bias(tiny_net, make_images):
    logits = adapt(tiny_net, "neo")(make_images(1))
    torch.testing.assert_close(logits[0], tiny_net.fc.bias.detach(), rtol=1e-4, atol=1e-4)


def test_a_mean_that_stays_at_zero_is_the_source(tiny_net, make_images):
    adapter = adapt(tiny_net, "neo", options={"variant": "continual", "rate": 0.0})
    x = make_images(16)
    with torch.no_grad():
        torch.testing.assert_close(adapter(x), tiny_net(x), rtol=1e-5, atol=1e-5)


def test_centred_on_the_source_a_stream_of_source_images_is_left_alone(tiny_net, make_images):
    x = make_images(200, seed=5)
    adapter = adapt(tiny_net, "neo", source=[(x, None)], options={"centre": "source"})
    with torch.no_grad():
        torch.testing.assert_close(adapter(x), tiny_net(x), rtol=1e-3, atol=1e-3)


def test_centred_on_the_source_its_mean_is_where_the_stream_goes(tiny_net, make_images):
    clean, x = make_images(300, seed=5), make_images(64, seed=6) * 0.3
    adapter = adapt(tiny_net, "neo", source=[(clean, None)], options={"centre": "source"})
    (source, head), (h, _) = split(tiny_net, clean), split(tiny_net, x)
    expected = (h - h.mean(0) + source.mean(0)) @ head.weight.T + head.bias
    torch.testing.assert_close(adapter(x), expected, rtol=1e-3, atol=1e-3)


def test_the_source_is_needed_for_its_centre_only(tiny_net, make_images, tmp_path):
    with pytest.raises(ValueError, match="'neo' needs source data"):
        adapt(tiny_net, "neo", options={"centre": "source"})
    found = gather(Network(tiny_net), [make_images(50)], 5)
    adapter = adapt(tiny_net, "neo", source=found, options={"centre": "source"})
    adapter(make_images(20))
    adapter.save(tmp_path / "state")
    again = load(tmp_path / "state", tiny_net)  # the statistics are in the file
    assert torch.equal(adapter(make_images(20, seed=1)), again(make_images(20, seed=1)))


def test_a_model_without_batchnorm_runs(make_images):
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 6), nn.ReLU(), nn.Linear(6, 5))
    assert adapt(net, "neo")(make_images(4)).shape == (4, 5)


def test_unknown_variants_and_centres_are_sentences(tiny_net):
    with pytest.raises(ValueError, match="variant of neo"):
        adapt(tiny_net, "neo", options={"variant": "cumulativ"})
    with pytest.raises(ValueError, match="centre of neo"):
        adapt(tiny_net, "neo", options={"centre": "middle"})


def test_looking_changes_nothing(tiny_net, make_images):
    adapter = adapt(tiny_net, "neo")
    adapter(make_images(8))
    x = make_images(8, seed=1)
    looked, again = adapter.predict(x), adapter.predict(x)
    assert torch.equal(looked, again)
    assert torch.equal(looked, adapter(x))


def test_the_sources_centre_needs_no_batchnorm(make_images):
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)
    ).eval()
    x = make_images(40, seed=1)
    # Twice: a class of a single image would take the mean of all.
    adapter = adapt(net, "neo", options={"centre": "source"}, source=[(x, None), (x, None)])
    torch.testing.assert_close(adapter(x), net(x).detach(), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="method 'neo' needs source data"):
        adapt(net, "neo", options={"centre": "source"})
