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
    shares = [n / counts.sum() for n in counts if n > 0]
    seen = math.exp(-sum(q * math.log(q) for q in shares)) / classes
    gate = min(1.0, max(0.0, (seen - least) / (0.7 * (1 - least))))
    return seen, gate * images / (images + 16) * total / weight


def offset(batches, bias, least):
    """Return what the memory that decides would take off the last batch."""
    found = [remembered(batches, bias, least, 500 * 2**k) for k in range(5)]
    most = max(seen for seen, _ in found)
    return next(shift for seen, shift in found if seen >= 0.95 * most)


def evenness(logits, ages):
    """Return the entropy of the mean answer, images weighted by (1 - 1/1000)^age."""
    answers = np.exp(logits - logits.max(axis=1, keepdims=True))
    mean = (answers / answers.sum(axis=1, keepdims=True)).T @ (1 - 1 / 1000) ** ages
    share = mean / mean.sum()
    return -float((share * np.log(share)).sum())


def literal(batches, bias, least):
    """Return the logits of the last batch, by the words of centre.py and nothing else."""
    sizes = [len(batch) for batch in batches]
    taken = [offset(batches[: k + 1], bias, least) for k in range(len(batches))]
    ages = np.concatenate([np.full(n, sum(sizes[k + 1 :])) for k, n in enumerate(sizes)])
    plain = np.concatenate(batches)
    centred = plain - np.repeat(taken, sizes, axis=0)
    evener = evenness(centred, ages) > evenness(plain, ages)
    return batches[-1] - taken[-1] * evener


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(2, 6), st.integers(0, 2**20)
)
def test_the_definition(sizes, classes, seed):
    rng = np.random.default_rng(seed)
    bias, least = rng.normal(size=classes), float(rng.uniform(0, 0.9))
    batches = [rng.normal(1.0, 2.0, (size, classes)) for size in sizes]
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
    rng = np.random.default_rng(2)
    labels = rng.permutation(np.repeat(np.arange(5), 120))
    # Class 0 is answered by all or nothing, and hardly ever by doubt: its mean logit is low.
    logits = 4.0 * np.eye(5)[labels] + rng.normal(0, 0.5, (600, 5))
    logits[:, 0] += np.where(labels == 0, 2.0, -8.0)
    centre = Centre(torch.zeros(5), 0.5)
    for rows in np.array_split(np.arange(600), 10):
        state = centre.moved(torch.from_numpy(logits[rows]))
        assert not centre.shift(state).any()
        centre.take(state)


@pytest.mark.parametrize("kind", ["layernorm", "groupnorm", "batchnorm", "none"])
def test_what_keeps_no_statistics_is_centred(kind, make_images):
    adapter = adapt(make_kind_net(kind), options=CENTRED, decode="none")
    assert (adapter.method.centre is None) == (kind == "batchnorm")
    assert adapt(make_kind_net(kind), options={"centre": 1.0}).method.centre is None
    plain, x = adapt(make_kind_net(kind), "source"), make_images(64, seed=1)
    assert not torch.equal(adapter(x), plain(x))


def test_where_classes_come_in_long_runs_a_longer_memory_decides():
    rng, centre = np.random.default_rng(1), Centre(torch.zeros(5), 0.5)
    shift = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    for label in np.repeat([0, 1, 2, 3, 4] * 4, 6):  # runs of 384 images
        logits = 5.0 * np.eye(5)[label] + shift + rng.normal(0, 0.3, (64, 5))
        centre.take(centre.moved(torch.from_numpy(logits)))
    counts = centre.state["counts"][0]
    assert float(counts.max() / counts.sum()) > 0.5  # the shortest knows little but the last run
    found = centre.shift(centre.state)
    expected = torch.tensor([0.8, -0.2, -0.2, -0.2, -0.2], dtype=torch.float64)
    torch.testing.assert_close(found - found.mean(), expected, atol=0.45, rtol=0)


def test_predicting_alone_keeps_nothing(make_images):
    adapter = adapt(make_kind_net("layernorm"), options=CENTRED, decode="none")
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


def test_a_bad_share_is_refused():
    with pytest.raises(ValueError, match="multipool's centre must be between 0 and 1, got 1.5"):
        adapt(make_kind_net("layernorm"), options={"centre": 1.5})
