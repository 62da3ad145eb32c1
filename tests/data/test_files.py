"""Single pictures: decoding, framing, lists."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from multipool.data.files import FileImages, Framing, class_folders, decode, listed, read_names


def png(array):
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


def test_a_picture_of_the_right_size_is_untouched(rng):
    image = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    np.testing.assert_array_equal(decode(png(image), Framing(8, 12)), image)


def test_the_shorter_side_is_scaled_and_the_centre_kept():
    wide = np.zeros((10, 40, 3), np.uint8)
    wide[:, 15:25] = 200  # the central square
    np.testing.assert_array_equal(decode(png(wide), Framing(10, 10)), np.full((10, 10, 3), 200))
    tall = wide.transpose(1, 0, 2).copy()
    np.testing.assert_array_equal(decode(png(tall), Framing(10, 10)), np.full((10, 10, 3), 200))


def test_a_square_framing_squeezes_then_crops():
    halves = np.zeros((10, 40, 3), np.uint8)
    halves[:, 20:] = 255  # left black, right white: squeezed, both halves remain
    out = decode(png(halves), Framing(14, 16, square=True))
    assert out.shape == (14, 14, 3)
    assert out[:, 0].max() == 0
    assert out[:, -1].min() == 255


@given(width=st.integers(1, 20), height=st.integers(1, 20), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_a_framing_that_keeps_none_scales_every_picture_as_pillow_does(width, height, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    scaled = Image.fromarray(pixels).resize((16, 16), Image.Resampling.BILINEAR)
    out = decode(png(pixels), Framing(14, 16, square=True, keep=False))
    np.testing.assert_array_equal(out, np.asarray(scaled.crop((1, 1, 15, 15))))


def test_a_picture_of_the_right_size_is_scaled_where_the_framing_keeps_none(rng):
    image = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    out = decode(png(image), Framing(8, 12, keep=False))
    scaled = Image.fromarray(image).resize((12, 12), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(out, np.asarray(scaled.crop((2, 2, 10, 10))))


def test_grey_and_transparent_pictures_become_rgb():
    grey = np.full((4, 4), 77, np.uint8)
    np.testing.assert_array_equal(decode(png(grey), Framing(4, 4)), np.full((4, 4, 3), 77))
    assert decode(png(np.full((4, 4, 4), 9, np.uint8)), Framing(4, 4)).shape == (4, 4, 3)


def test_a_picture_that_does_not_decode_is_one_sentence_with_its_name(tmp_path, jpeg):
    bad = tmp_path / "bad.JPEG"
    for content in (b"", b"no picture", jpeg()[:300]):
        bad.write_bytes(content)
        with pytest.raises(ValueError, match="bad.JPEG does not decode as an image") as caught:
            decode(bad, Framing(64, 64))
        assert "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match="no image at"):
        decode(tmp_path / "none.JPEG", Framing(64, 64))


def test_a_picture_that_claims_too_many_pixels_is_refused():
    file = io.BytesIO()
    Image.new("1", (10000, 8000)).save(file, "PNG")  # a few kB, 80 million pixels
    with pytest.raises(ValueError, match="claims 10000 x 8000 pixels"):
        decode(file.getvalue(), Framing(8, 8), "bomb.png")


def test_class_folders_are_listed_sorted_and_other_files_are_passed_over(tmp_path, class_tree):
    class_tree(tmp_path, ["b", "a"])
    (tmp_path / "a" / "notes.txt").write_text("no picture")
    (tmp_path / ".hidden").mkdir()
    files = class_folders(tmp_path, ("a", "b"), Framing(64, 64))
    assert files.names == ["a/a_0.JPEG", "a/a_1.JPEG", "b/b_0.JPEG", "b/b_1.JPEG"]
    assert files.labels.tolist() == [0, 0, 1, 1]
    with pytest.raises(ValueError, match="has a folder 'b' that is none of the 1 classes"):
        class_folders(tmp_path, ("a",), Framing(64, 64))


def test_all_decodes_in_order_with_threads(tmp_path, class_tree):
    class_tree(tmp_path, [f"c{i}" for i in range(5)], each=3, size=(8, 8))
    files = class_folders(tmp_path, [f"c{i}" for i in range(5)], Framing(8, 8))
    whole = files.all()
    assert whole.shape == (15, 8, 8, 3)
    for row in range(15):
        np.testing.assert_array_equal(whole[row], files.array(np.array([row]))[0])
    assert isinstance(files, FileImages)


def test_lists_have_paths_and_perhaps_labels(tmp_path):
    for name in ("a.jpg", "b c.jpg"):
        (tmp_path / name).write_bytes(b"")
    file = tmp_path / "list.txt"
    file.write_text("a.jpg 3\n\nb c.jpg 12\na.jpg\n")
    assert listed(file, tmp_path) == [("a.jpg", "3"), ("b c.jpg", "12"), ("a.jpg", "")]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a.jpg 0\nmissing.jpg 1\n", "line 2 of .*list.txt names missing.jpg, which is not in"),
        ("../outside.jpg 0\n", "line 1 of .* names '../outside.jpg', which leaves its folder"),
        ("/etc/passwd 0\n", "which leaves its folder"),
        ("\n", "names no images"),
    ],
)
def test_a_list_with_a_wrong_path_is_one_sentence(tmp_path, text, sentence):
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.jpg").write_bytes(b"")
    (tmp_path / "outside.jpg").write_bytes(b"")
    (root / "list.txt").write_text(text)
    with pytest.raises((ValueError, FileNotFoundError), match=sentence) as caught:
        listed(root / "list.txt", root)
    assert "\n" not in str(caught.value)


def test_names_come_once_each(tmp_path):
    file = tmp_path / "classes.txt"
    file.write_text("b\na first\n")
    assert read_names(file) == ("b", "a")
    file.write_text("a\na\n")
    with pytest.raises(ValueError, match="must name each class once"):
        read_names(file)
    with pytest.raises(FileNotFoundError, match="no readable list"):
        read_names(tmp_path / "none")
