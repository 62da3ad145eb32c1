"""Streams made by chance, and a classifier that is right about some of their samples."""

import numpy as np
import pytest
import torch


def make_classes(size, classes, stay, seed):
    """Return labels that stay with probability ``stay``, else are any class."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(classes, size=size)
    for t in range(1, size):
        if generator.random() < stay:
            labels[t] = labels[t - 1]
    return torch.from_numpy(labels)


def make_logits(labels, classes, signal, seed, bias=0.0):
    """Return noisy logits: the true class has ``signal`` more, class 0 ``bias`` more."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(labels), classes, generator=generator)
    logits += signal * torch.nn.functional.one_hot(labels, classes)
    logits[:, 0] += bias
    return logits


@pytest.fixture(scope="session")
def classes_of():
    return make_classes


@pytest.fixture(scope="session")
def logits_of():
    return make_logits
