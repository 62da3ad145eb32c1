"""Streams that show two of a hundred classes, on real images of the embedded set."""

import numpy as np
import pytest

from multipool import data, models
from multipool.methods import adapt


@pytest.fixture(scope="module")
def brightness():
    return data.load("shapes-c", domains=("brightness",))


def error(method, dataset):
    """Return the mean error in per cent over four streams of 128 images in random order."""
    labels, wrong = np.asarray(dataset.labels("brightness")), []
    for seed in range(4):
        draw = np.random.default_rng(seed)
        mine = np.flatnonzero(np.isin(labels, draw.permutation(100)[:2]))
        order = np.concatenate([draw.permutation(mine) for _ in range(4)])[:128]
        adapter = adapt(models.load("shapes-wrn10-1"), method, decode="none")
        for rows in order.reshape(4, 32):
            answers = adapter(dataset.images("brightness", rows)).argmax(dim=1).numpy()
            wrong.append((answers != labels[rows]).mean())
    return 100 * np.mean(wrong)


def test_few_classes_are_not_taken_for_a_domain(brightness):
    # With the statistics of two classes in all layers most answers are wrong.
    assert error("bn", brightness) > 80
    assert error("multipool", brightness) < error("source", brightness) + 10
