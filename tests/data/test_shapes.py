"""The embedded dataset: what it promises to streams, and what makes a class a class."""

from __future__ import annotations

import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multipool.data import shapes
from multipool.data.shapes.draw import _draw


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTIPOOL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def points(side=65):
    line = torch.linspace(-1.5, 1.5, side)
    return torch.meshgrid(line.flip(0), line, indexing="ij")[::-1]  # x to the right, y up


def test_images_are_uint8_at_32_px_and_labels_are_int64():
    drawn = shapes.draw("train", 130)
    assert drawn.images.shape == (130, 3, 32, 32)
    assert drawn.images.dtype == torch.uint8
    assert drawn.labels.dtype == torch.int64


def test_every_hundred_images_hold_each_class_once():
    labels = shapes.draw("test", 300).labels.view(3, 100)
    assert torch.equal(labels.sort(dim=1).values, torch.arange(100).expand(3, 100))
    assert not torch.equal(labels[0], labels[1])


@settings(max_examples=5, deadline=None)
@given(count=st.integers(1, 199))
def test_a_short_draw_is_the_beginning_of_a_longer_one(count):
    short, long = shapes.draw("train", count), shapes.draw("train", 200)
    assert torch.equal(short.images, long.images[:count])
    assert torch.equal(short.labels, long.labels[:count])


def test_the_same_arguments_give_the_same_bytes_whatever_others_drew():
    first = shapes.draw("test", 100, seed=3)
    torch.manual_seed(99)
    torch.rand(7)
    assert torch.equal(shapes.draw("test", 100, seed=3).images, first.images)


def test_splits_and_seeds_give_different_images():
    images = [
        shapes.draw(split, 100, seed).images for split in ("train", "test") for seed in (0, 1)
    ]
    for i, a in enumerate(images):
        assert all((a != b).float().mean() > 0.9 for b in images[:i])


def test_there_are_a_hundred_names_and_each_is_an_outline_with_a_fill():
    names = shapes.class_names()
    assert len(set(names)) == shapes.NUM_CLASSES == 100
    assert names[23] == "triangle-diagonals"  # outline 2, fill 3


@pytest.mark.parametrize("name", shapes.OUTLINES)
def test_an_outline_is_whole_within_the_unit_disc_and_large_enough_to_see(name):
    x, y = points()
    inside = shapes.OUTLINES[name](x, y) < 0
    assert not inside[torch.hypot(x, y) > 1.2].any()
    assert inside.float().mean() * 9.0 > 0.9  # of the 9 square units; the disc has 2.4


@pytest.mark.parametrize("name", sorted(set(shapes.OUTLINES) - {"crescent"}))
def test_a_mirrored_outline_is_itself(name):
    x, y = points()
    outline = shapes.OUTLINES[name]
    assert torch.allclose(outline(x, y), outline(-x, y), atol=1e-6)


def test_the_distance_to_the_disc_is_exact():
    x = torch.tensor([0.0, 3.0, 0.88])
    assert shapes.OUTLINES["disc"](x, torch.tensor([0.0, 4.0, 0.0])).tolist() == pytest.approx(
        [-0.88, 4.12, 0.0], abs=1e-6
    )


@pytest.mark.parametrize("name", shapes.FILLS)
def test_a_fill_is_a_share_and_all_but_plain_use_both_colours(name):
    x, y = points()
    depth = shapes.OUTLINES["disc"](x, y)
    share = shapes.FILLS[name](x, y, depth, torch.tensor(1.0), torch.tensor(0.2))[depth < 0]
    assert share.shape == depth[depth < 0].shape
    assert share.min() == 0.0
    assert share.max() == (0.0 if name == "plain" else 1.0)
    if name != "plain":
        assert 0.1 < share.mean() < 0.9


def test_rows_do_not_change_along_a_row_nor_columns_along_a_column():
    x, y = points()
    one, phase = torch.tensor(1.0), torch.tensor(0.1)
    rows = shapes.FILLS["rows"](x, y, x, one, phase)
    columns = shapes.FILLS["columns"](x, y, x, one, phase)
    assert torch.equal(rows, rows[:, :1].expand_as(rows))
    assert torch.equal(columns, columns[:1].expand_as(columns))


def test_the_mean_colour_does_not_tell_the_class():
    drawn = _draw("train", 2000, 0)
    mean = drawn.images.float().mean(dim=(2, 3))  # (2000, 3)
    centres = torch.stack([mean[drawn.labels == k].mean(dim=0) for k in range(100)])
    test = _draw("test", 1000, 0)
    nearest = torch.cdist(test.images.float().mean(dim=(2, 3)), centres).argmin(dim=1)
    assert (nearest == test.labels).float().mean() < 0.04  # chance is 0.01


def test_a_large_draw_is_kept_and_read_back_the_same(cache):
    first = shapes.draw("test", 1000)
    (kept,) = (cache / "shapes").iterdir()
    modified = kept.stat().st_mtime_ns
    again = shapes.draw("test", 1000)
    assert torch.equal(first.images, again.images)
    assert torch.equal(first.labels, again.labels)
    assert kept.stat().st_mtime_ns == modified


def test_a_damaged_cache_file_is_drawn_again(cache):
    first = shapes.draw("test", 1000)
    (kept,) = (cache / "shapes").iterdir()
    kept.write_bytes(kept.read_bytes()[:5000])
    assert torch.equal(shapes.draw("test", 1000).images, first.images)
    assert kept.stat().st_size > 3_000_000


def test_a_cache_that_cannot_be_written_does_not_matter(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MULTIPOOL_CACHE", str(tmp_path / "file" / "sub"))
    assert len(shapes.draw("train", 1000)) == 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("val", 10), "unknown split 'val'; choose one of: test, train"),
        (("train", 0), "count must be at least 1, got 0"),
        (("train", 5, -1), "seed must not be negative, got -1"),
    ],
)
def test_a_wrong_argument_is_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        shapes.draw(*arguments)


def test_ten_thousand_images_take_less_than_twenty_seconds():
    start = time.process_time()
    _draw("train", 500, 0)
    assert (time.process_time() - start) * 20 < 40  # CPU seconds; two cores halve them
