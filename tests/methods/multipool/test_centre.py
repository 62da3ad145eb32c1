"""The centre of features: against the definition, image by image, and where it must stay away."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kinds import make_kind_net
from multipool.methods import adapt
from multipool.methods.multipool.centre import Centre

CENTRED = {"lr_without": 0.0}  # nothing learned, so that only the centre speaks


def having_favoured_one_class(adapter):
    """Let an adapter think that its model gave class 0 to all images so far, but for the centre."""
    answers = adapter.method.centre.state["answers"]
    answers[:, 0, 0], answers[:, 1] = 1e6, 2e5
    return adapter


def entropy(sums):
    """Return the entropy of what such sums are shares of."""
    shares = [n / sum(sums) for n in sums if n > 0]
    return -sum(q * math.log(q) for q in shares)


def weights(sizes, classes, length):
    """Return what each image weighs in one memory, by its age in images."""
    keep = 1 - 1 / max(length, length * classes / 100)
    return np.concatenate([np.full(n, keep ** sum(sizes[k + 1 :])) for k, n in enumerate(sizes)])


def independent(found):
    """Return how many images of equal weight these weights are worth."""
    return sum(found) ** 2 / sum(found**2)


def remembered(batches, bias, least, length):
    """Return the share of classes one memory has seen, and what it takes off."""
    classes = len(bias)
    counts, total = np.zeros(classes), np.zeros(classes)
    weight = images = 0.0
    for batch in batches:
        keep = (1 - 1 / max(length, length * classes / 100)) ** len(batch)
        counts, total, weight, images = counts * keep, total * keep, weight * keep, images * keep
        labels = [int(np.argmax(z)) for z in batch]
        for label in labels:
            counts[label] += 1
        for z, label in zip(batch, labels, strict=True):
            total += (z - bias) / counts[label]
            weight += 1 / counts[label]
            images += 1
    n = independent(weights([len(batch) for batch in batches], classes, length))
    found = entropy(counts)
    seen = min(1.0, math.exp(found + 1.5 * (math.exp(found) - 1) / n) / classes)
    gate = min(1.0, max(0.0, (seen - least) / (0.7 * (1 - least))))
    return seen, gate * images / (images + 16) * total / weight


def offset(batches, bias, least):
    """Return what would be taken off the last batch, and the length of the memory that says so."""
    found = [(125 * 2**k, *remembered(batches, bias, least, 125 * 2**k)) for k in range(7)]
    most = max(seen for _, seen, _ in found)
    return next((shift, length) for length, seen, shift in found if seen >= 0.95 * most)


def mean_entropy(logits, found):
    """Return the entropy of the mean answer to images of such weights."""
    answers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return entropy((answers / answers.sum(axis=1, keepdims=True)).T @ found)


def literal(batches, bias, least):
    """Return the logits of the last batch, by the words of centre.py and nothing else."""
    sizes, classes = [len(batch) for batch in batches], len(bias)
    taken = [offset(batches[: k + 1], bias, least) for k in range(len(batches))]
    last, length = taken[-1]
    judge = weights(sizes, classes, max(1000, length))
    plain = np.concatenate(batches)
    centred = plain - np.repeat([shift for shift, _ in taken], sizes, axis=0)
    gain = mean_entropy(centred, judge) - mean_entropy(plain, judge)
    return batches[-1] - last * (gain > (classes - 1) / (2 * independent(judge)))


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(2, 6), st.integers(0, 2**20)
)
def test_the_definition(sizes, classes, seed):
    rng = np.random.default_rng(seed)
    bias, least = rng.normal(size=classes), float(rng.uniform(0, 0.9))
    shift = rng.normal(0.0, 2.0, classes)
    batches = [shift + rng.normal(1.0, 2.0, (size, classes)) for size in sizes]
    centre = Centre(torch.from_numpy(bias), least)
    for batch in batches:
        logits = torch.from_numpy(batch)
        state = centre.moved(logits)
        found = logits - centre.shift(state)
        centre.take(state)
    np.testing.assert_allclose(found.numpy(), literal(batches, bias, least), atol=1e-9)


def test_a_common_shift_is_taken_off_and_few_classes_are_left_alone():
    rng, shift = np.random.default_rng(0), np.array([3.0, 0.0, 0.0, 0.0, 0.0])
    labels = rng.integers(0, 5, 600)
    clean = 4.0 * np.eye(5)[labels] + rng.normal(0, 1.5, (600, 5))

    def wrong(keep):
        centre, mistakes = Centre(torch.zeros(5), 0.5), 0
        for rows in np.array_split(np.flatnonzero(keep), 10):
            logits = torch.from_numpy(clean[rows] + shift)
            state = centre.moved(logits)
            found = (logits - centre.shift(state)).argmax(1).numpy()
            mistakes += int((found != labels[rows]).sum())
            centre.take(state)
        return mistakes, int(((clean + shift).argmax(1) != labels)[keep].sum())

    everything, before = wrong(labels >= 0)
    assert everything < 0.6 * before
    one_class, before = wrong(labels == 0)
    assert one_class == before


def test_a_model_whose_answers_are_even_is_left_alone_though_its_logits_are_not_centred():
    rng, taken = np.random.default_rng(2), []
    centre = Centre(torch.zeros(5), 0.5)
    for _ in range(20):
        labels = rng.permutation(np.repeat(np.arange(5), 12))
        # Some images look not at all like class 0, and most a little: its mean logit says nothing.
        logits = 4.0 * np.eye(5)[labels] + rng.normal(0, 0.5, (60, 5))
        logits[:, 0] -= np.where(labels == 0, 0.0, rng.exponential(8.0, 60))
        state = centre.moved(torch.from_numpy(logits))
        assert not centre.shift(state).any()
        taken.append(centre._offset(state)[0])
        centre.take(state)
    assert float(taken[-1][0]) < -3.0  # so much the centre alone would have put on class 0


@pytest.mark.parametrize("kind", ["layernorm", "groupnorm", "batchnorm", "none"])
def test_what_keeps_no_statistics_is_centred(kind, make_images):
    net, x = make_kind_net(kind), make_images(64, seed=1)
    adapter = adapt(net, options=CENTRED, decode="none")
    assert adapt(net, options={"centre": 1.0}).method.centre is None
    assert (adapter.method.centre is None) == (kind == "batchnorm")
    if kind == "batchnorm":
        return
    plain = adapt(net, "source")(x)
    last = [layer for layer in net.modules() if isinstance(layer, torch.nn.Linear)][-1]
    expected, _ = offset([plain.double().numpy()], last.bias.detach().double().numpy(), 0.5)
    found = having_favoured_one_class(adapter)(x)
    assert abs(expected).max() > 0.1
    np.testing.assert_allclose((plain - found).numpy(), np.tile(expected, (64, 1)), atol=1e-4)


def test_where_classes_come_in_long_runs_a_longer_memory_decides():
    rng, centre = np.random.default_rng(1), Centre(torch.zeros(5), 0.5)
    shift = np.array([2.0, 0.0, 0.0, 0.0, 0.0])
    for label in np.repeat([0, 1, 2, 3, 4] * 4, 6):  # runs of 384 images
        logits = 3.0 * np.eye(5)[label] + shift + rng.normal(0, 0.3, (64, 5))
        centre.take(centre.moved(torch.from_numpy(logits)))
    counts = centre.state["counts"][0]
    assert float(counts.max() / counts.sum()) > 0.5  # the shortest knows little but the last run
    found = centre.shift(centre.state)
    expected = torch.tensor([1.6, -0.4, -0.4, -0.4, -0.4], dtype=torch.float64)
    torch.testing.assert_close(found - found.mean(), expected, atol=0.45, rtol=0)


def test_predicting_alone_keeps_nothing(make_images):
    adapter = adapt(make_kind_net("layernorm"), options=CENTRED, decode="none")
    having_favoured_one_class(adapter)
    x = make_images(32, seed=2)
    once = adapter.predict(x)
    assert torch.equal(adapter.predict(x), once)
    assert torch.equal(adapter(x), once)
    assert not torch.equal(adapter.predict(x), once)  # now the images count twice


def test_saved_and_resumed(resumed):
    model = make_kind_net("layernorm")
    whole = adapt(model, seed=3)
    resumed(whole, model, 24)
    assert float(whole.state_dict()["centre.counts"].sum()) > 100
