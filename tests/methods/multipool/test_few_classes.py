"""A stream that shows one class only, on real images of the embedded set."""

import numpy as np
import pytest

from multipool import data, models
from multipool.methods import adapt


@pytest.fixture(scope="module")
def contrast():
    return data.load("shapes-c", domains=("contrast",))


def errors(method, dataset, classes):
    """Return the mean error in per cent over streams of 20 images, one of each class."""
    labels, wrong = np.asarray(dataset.labels("contrast")), []
    for label in classes:
        adapter = adapt(models.load("shapes-wrn10-1"), method, decode="none")
        images = dataset.images("contrast", np.flatnonzero(labels == label))
        wrong.append((adapter(images).argmax(dim=1) != label).float().mean().item())
    return 100 * np.mean(wrong)


def test_one_class_is_not_taken_for_a_domain(contrast):
    # With statistics of the class in all layers nearly every answer is wrong.
    classes = range(0, 100, 10)
    assert errors("bn", contrast, classes) > 90
    assert errors("multipool", contrast, classes) < errors("source", contrast, classes) + 5
