import numpy as np
import pytest
import torch

from multipool.core import ImageSet
from multipool.engine.replay import Replay


def images(count):
    """Return images whose every pixel is their own number, with labels by that number."""
    values = torch.arange(count, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, 2, 2)
    return values.contiguous(), torch.arange(count) % 5


def make(source, most=1000, size=4, seed=0):
    return Replay(source, "toy", 5, most, size, seed)


def numbers(batch):
    return (batch[0][:, 0, 0, 0] * 255).round().long()


def test_a_pass_gives_every_image_once_and_the_next_one_in_another_order():
    replay = make(images(12))
    first, second = (
        torch.cat([numbers(replay.batch(i)) for i in range(start, start + 3)]) for start in (0, 3)
    )
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(12))
    assert not torch.equal(first, second)


def test_labels_stay_with_their_images():
    replay = make(images(40), size=7)
    for i in range(8):
        found, labels = replay.batch(i)
        assert torch.equal(numbers((found, labels)) % 5, labels)
        assert len(labels) == 7


def test_batch_i_is_the_same_whenever_it_is_asked_for():
    one, other = make(images(20)), make(images(20))
    for _ in range(9):
        one.batch(_)
    assert torch.equal(one.batch(13)[0], other.batch(13)[0])
    assert not torch.equal(one.batch(2)[0], make(images(20), seed=1).batch(2)[0])


def test_every_kind_of_source_is_read():
    values, labels = images(12)
    floats = values.float() / 255
    for source in (
        (values, labels),
        (values.numpy(), labels.numpy()),
        ImageSet(values, labels),
        [(values[:5], labels[:5]), (values[5:], labels[5:])],
        iter([(floats[:5], labels[:5]), [values[5:], labels[5:]]]),
    ):
        replay = make(source, size=100)
        found, classes = replay.batch(0)
        order = numbers((found, classes)).argsort()
        torch.testing.assert_close(found[order], floats)
        assert torch.equal(classes[order], labels)
        assert len(replay) == 1


def test_no_more_is_read_than_is_kept():
    def endless():
        while True:
            yield images(10)

    assert len(make(endless(), most=25).labels) == 25
    kept = make(images(200), most=50)  # sorted arrays: a sample of all, not the first ones
    assert len(kept.labels) == 50
    assert kept.images.max() > 100


def test_once_gives_all_without_a_stray_last_image():
    sizes = [len(labels) for _, labels in make(images(17), size=8).once()]
    assert sum(sizes) == 17
    assert min(sizes) > 1


def test_bad_sources_are_sentences():
    values, labels = images(6)
    cases = [
        (None, "goes on learning from labelled source images"),
        ("statistics.safetensors", "goes on learning from labelled source images"),
        ({"mean": values}, "goes on learning from labelled source images"),
        ([values], "needs the labels of source images"),
        ([(values, None)], "needs the labels of source images"),
        ([], "at least one labelled image"),
        ([(values, labels[:3])], "must go in pairs, got 6 and 3"),
        ([(values, labels + 3)], "source labels must be 0 to 4, got 3 to 7"),
        ([(values.float(), labels)], "images must lie in"),
        ([(np.zeros((2, 3)), labels[:2])], "images must have shape"),
    ]
    for source, message in cases:
        with pytest.raises(ValueError, match=message):
            make(source)
