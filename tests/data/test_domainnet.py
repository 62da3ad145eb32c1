"""DomainNet-126: list files, framing, faults."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from multipool.data import Stream, StreamConfig, load

DOMAINS = ("real", "clipart", "painting", "sketch")


@pytest.fixture
def root(tmp_path, jpeg):
    home = tmp_path / "domainnet126"
    for d, domain in enumerate(DOMAINS):
        lines = []
        for i in range(4 + d):
            name = f"{domain}/class_{i}/{domain}_{i}.jpg"
            (home / name).parent.mkdir(parents=True)
            (home / name).write_bytes(jpeg((60 * d, 10 * i, 0), size=(300, 200)))
            lines.append(f"{name} {125 - i}")
        (home / f"{domain}_list.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_lists_give_domains_of_their_own_length_with_real_as_source(root):
    dataset = load("domainnet126", root)
    assert dataset.domains == ("clipart", "painting", "sketch")
    assert (dataset.num_classes, dataset.size, dataset.severities) == (126, 224, ())
    assert [len(dataset.labels(d)) for d in dataset.domains] == [5, 6, 7]
    assert dataset.labels("sketch").tolist() == [125, 124, 123, 122, 121, 120, 119]
    images = dataset.images("painting", np.array([5, 0]))
    assert images.shape == (2, 3, 224, 224)
    assert abs(images[:, 0].float().mean() - 120) < 3
    assert dataset.source().labels.tolist() == [125, 124, 123, 122]
    stream = Stream(dataset, StreamConfig(batch_size=4))
    assert np.bincount(stream.domain_ids).tolist() == [5, 6, 7]
    assert sum(len(b) for b in stream) == 18
    assert Stream(dataset, StreamConfig(limit=9)).samples == 9


def test_the_data_folder_may_be_the_dataset_itself_and_domains_may_be_chosen(root):
    dataset = load("domainnet126", root / "domainnet126", domains=("sketch", "real"))
    assert dataset.domains == ("sketch", "real")
    with pytest.raises(ValueError, match="unknown domain of domainnet126 'quickdraw'"):
        load("domainnet126", root, domains=("quickdraw",))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("clipart/class_0/clipart_0.jpg 126", "must lie in 0 to 125, got 126"),
        ("clipart/class_0/clipart_0.jpg -1", "must lie in 0 to 125, got -1"),
        (f"clipart/class_0/clipart_0.jpg {10**30}", "must be a list of whole numbers"),
        ("clipart/class_0/clipart_0.jpg", "gives no label for clipart/class_0/clipart_0.jpg"),
        ("clipart/none.jpg 3", "names clipart/none.jpg, which is not in"),
        ("../../passwd 3", "which leaves its folder"),
    ],
)
def test_wrong_lists_are_one_sentence(root, text, sentence):
    (root / "domainnet126" / "clipart_list.txt").write_text(text)
    with pytest.raises((ValueError, FileNotFoundError), match=sentence) as caught:
        load("domainnet126", root).labels("clipart")
    assert "\n" not in str(caught.value)


def test_missing_lists_are_one_sentence(root, tmp_path_factory):
    (root / "domainnet126" / "sketch_list.txt").unlink()
    with pytest.raises(FileNotFoundError, match="has no sketch_list.txt"):
        load("domainnet126", root)
    with pytest.raises(FileNotFoundError, match="no DomainNet-126 in"):
        load("domainnet126", tmp_path_factory.mktemp("empty"))
    with pytest.raises(ValueError, match="needs severities, which domainnet126 does not have"):
        Stream(load("domainnet126", root, domains=("clipart",)), StreamConfig("gradual"))


def test_a_picture_of_224_pixels_is_scaled_like_every_other(root, rng):
    name = "clipart/class_0/clipart_0.jpg"
    pixels = rng.integers(0, 256, (224, 224, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(root / "domainnet126" / name, "PNG")
    scaled = Image.fromarray(pixels).resize((256, 256), Image.Resampling.BILINEAR)
    image = load("domainnet126", root).images("clipart", np.array([0]))[0]
    np.testing.assert_array_equal(
        image.permute(1, 2, 0).numpy(), np.asarray(scaled.crop((16, 16, 240, 240)))
    )


@pytest.mark.parametrize("stray", [("sketch",), ("real", "clipart", "painting", "sketch")])
def test_stray_lists_beside_the_folder_do_not_hide_it(root, stray):
    for domain in stray:
        (root / f"{domain}_list.txt").write_text(f"{domain}/none.jpg 0\n")
    dataset = load("domainnet126", root)
    assert [len(dataset.labels(d)) for d in dataset.domains] == [5, 6, 7]
    assert len(dataset.source().labels) == 4
    assert len(load("domainnet126", root, domains=("sketch",)).labels("sketch")) == 7


def test_a_list_that_is_asked_for_is_found_beside_a_folder_without_it(root):
    home = root / "domainnet126"
    (home / "sketch").rename(root / "sketch")
    (home / "sketch_list.txt").rename(root / "sketch_list.txt")
    assert len(load("domainnet126", root, domains=("sketch",)).labels("sketch")) == 7
    assert len(load("domainnet126", root, domains=("clipart",)).labels("clipart")) == 5
    with pytest.raises(FileNotFoundError, match=r"domainnet126 has no sketch_list\.txt"):
        load("domainnet126", root)
