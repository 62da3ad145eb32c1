"""ImageNet-C: official folders, the list of images, copies from a validation folder, memory."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from multipool.data import Stream, StreamConfig, load

WNIDS = ("n01440764", "n01443537", "n02091032")
TWO = ("fog", "contrast")


@pytest.fixture
def official(tmp_path, class_tree):
    for shift, domain in enumerate(TWO):
        for severity in range(1, 6):
            place = tmp_path / "ImageNet-C" / domain / str(severity)
            class_tree(place, WNIDS, each=2, size=(224, 224), shift=100 * shift + 10 * severity)
    return tmp_path


def blue(images):
    return images[:, 2].float().mean(dim=(1, 2)).round(decimals=-1).int().tolist()


def test_official_folders_are_decoded_lazily_at_any_severity(official):
    dataset = load("imagenet-c", official, domains=TWO, severity=4)
    assert (dataset.num_classes, dataset.size, dataset.lazy) == (3, 224, True)
    assert dataset.classes == WNIDS
    assert dataset.labels("fog").tolist() == [0, 0, 1, 1, 2, 2]
    assert blue(dataset.images("contrast", np.array([0, 3]))) == [140, 140]
    assert blue(dataset.images("contrast", np.array([0]), severity=1)) == [110]


def test_a_gradual_stream_runs_over_official_folders(official):
    dataset = load("imagenet-c", official, domains=TWO)
    stream = Stream(dataset, StreamConfig("gradual", batch_size=7))
    assert stream.samples == 2 * 5 * 6
    blues = [value for batch in stream for value in blue(batch.images)]
    assert blues[:30] == sorted(blues[:18]) + sorted(blues[18:30], reverse=True)


def test_the_list_keeps_what_it_names_in_its_order(official):
    listed = [f"{WNIDS[2]}/{WNIDS[2]}_1.JPEG", f"{WNIDS[0]}/{WNIDS[0]}_0.JPEG"]
    file = official / "list.txt"
    file.write_text("\n".join(listed))
    dataset = load("imagenet-c", official, domains=TWO, image_list=file)
    assert dataset.labels("fog").tolist() == [2, 0]
    assert dataset.num_classes == 3  # of all folders, also those the list leaves out
    # The published name in the data folder is found without asking.
    file.rename(official / "imagenet_test_image_ids.txt")
    assert load("imagenet-c", official, domains=TWO).labels("fog").tolist() == [2, 0]


def test_a_list_of_classes_fixes_the_labels(official):
    file = official / "classes.txt"
    file.write_text("\n".join(("n00000000", *WNIDS)))
    dataset = load("imagenet-c", official, domains=TWO, class_list=file)
    assert dataset.num_classes == 4
    assert dataset.labels("fog").tolist() == [1, 1, 2, 2, 3, 3]


def test_a_missing_corruption_folder_is_one_sentence(official):
    with pytest.raises(FileNotFoundError, match="has no folder snow/5; unpack that part"):
        load("imagenet-c", official, domains=("fog", "snow"))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f"{WNIDS[0]}/none.JPEG", "names n01440764/none.JPEG, which is not in"),
        ("../../../secret.JPEG", "which leaves its folder"),
    ],
)
def test_a_list_naming_a_wrong_image_is_one_sentence(official, line, sentence):
    (official / "list.txt").write_text(line)
    dataset = load("imagenet-c", official, domains=TWO, image_list=official / "list.txt")
    with pytest.raises((ValueError, FileNotFoundError), match=sentence) as caught:
        Stream(dataset)
    assert "\n" not in str(caught.value)


def test_an_image_that_does_not_decode_stops_the_stream_with_its_name(official):
    bad = official / "ImageNet-C" / "fog" / "5" / WNIDS[1] / f"{WNIDS[1]}_0.JPEG"
    bad.write_bytes(bad.read_bytes()[:200])
    with pytest.raises(ValueError, match=f"{bad.name} does not decode as an image"):
        list(Stream(load("imagenet-c", official, domains=TWO)))


def test_copies_from_a_validation_folder_are_made_when_asked_for_and_kept(
    tmp_path, class_tree, own_cache
):
    class_tree(tmp_path / "val", WNIDS, size=(300, 260))
    dataset = load("imagenet-c", tmp_path, domains=TWO)
    assert not list(own_cache.rglob("*.JPEG"))
    first = dataset.images("contrast", np.array([5, 0]))
    assert first.shape == (2, 3, 224, 224)
    assert len(list(own_cache.rglob("*.JPEG"))) == 2
    again = load("imagenet-c", tmp_path, domains=TWO).images("contrast", np.array([0, 5]))
    assert torch.equal(first.flip(0), again)  # whatever the order and the batch
    kept = sorted(own_cache.rglob("*.JPEG"))[0]
    kept.write_bytes(b"damaged")
    repaired = load("imagenet-c", tmp_path, domains=TWO).images("contrast", np.array([0, 5]))
    assert torch.equal(repaired, again)
    assert not list(own_cache.rglob("*.part"))


def test_source_images_are_the_training_folder_or_the_validation_folder(tmp_path, class_tree):
    class_tree(tmp_path / "val", WNIDS)
    test = load("imagenet-c", tmp_path).source("test")
    assert (len(test.labels), test.split) == (6, "test")
    with pytest.raises(FileNotFoundError, match="put train/<wnid>/"):
        load("imagenet-c", tmp_path).source("train")
    class_tree(tmp_path / "train", WNIDS, each=3)
    source = load("imagenet-c", tmp_path).source()
    assert (len(source.labels), source.split) == (9, "train")
    assert next(iter(source))[0].shape == (9, 3, 224, 224)


def test_official_folders_without_clean_pictures_have_no_source(official):
    dataset = load("imagenet-c", official, domains=TWO)
    with pytest.raises(FileNotFoundError, match="no ImageNet pictures in"):
        dataset.source("test")
    with pytest.raises(FileNotFoundError, match="no ImageNet training images in"):
        dataset.source("train")


PEAK = """
import resource, sys
import numpy as np
from multipool.data import Stream, StreamConfig, load
stream = Stream(load("imagenet-c", sys.argv[1], domains=("fog",)), StreamConfig(), workers=4)
count = sum(len(batch) for batch in stream)
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_streaming_ten_thousand_pictures_stays_under_a_gigabyte(tmp_path, rng, capsys):
    from PIL import Image

    base = rng.integers(0, 256, (56, 56, 3), dtype=np.uint8)
    for c in range(100):
        folder = tmp_path / "ImageNet-C" / "fog" / "5" / f"n{c:08}"
        folder.mkdir(parents=True)
        for i in range(100):
            image = Image.fromarray(np.roll(base, (c, i), axis=(0, 1))).resize((224, 224))
            image.save(folder / f"{i:03}.JPEG", quality=85)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path)], capture_output=True, text=True, check=True
    )
    count, peak = map(int, done.stdout.split())
    with capsys.disabled():
        print(f"\n{count} pictures of 224 px streamed, peak {peak} MB of host memory")
    assert count == 10_000
    assert peak < 1000
