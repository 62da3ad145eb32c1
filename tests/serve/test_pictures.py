"""Pictures: exact where they fit, scaled where they do not, refused before they are unpacked."""

import io
import struct
import zlib

import pytest
import torch
from PIL import Image

from multipool.serve.mosaic import mosaic
from multipool.serve.pictures import read_picture
from multipool.serve.refusal import Refusal


def file_of(pixels: torch.Tensor, kind: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels.numpy()).save(file, kind, **options)
    return file.getvalue()


def test_a_picture_of_the_right_size_is_taken_as_it_is():
    pixels = torch.randint(0, 256, (6, 8, 3), dtype=torch.uint8)
    assert torch.equal(read_picture(file_of(pixels), (3, 6, 8), 1000), pixels.permute(2, 0, 1))


def test_a_grey_model_gets_one_channel():
    pixels = torch.randint(0, 256, (4, 4), dtype=torch.uint8)
    assert torch.equal(read_picture(file_of(pixels), (1, 4, 4), 1000), pixels[None])


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_another_size_is_scaled_and_its_middle_taken(kind):
    pixels = torch.zeros(20, 40, 3, dtype=torch.uint8)
    pixels[:, 10:30] = 200  # the middle square
    found = read_picture(file_of(pixels, kind), (3, 10, 10), 1000)
    assert found.shape == (3, 10, 10)
    assert int(found[:, :, 2:8].min()) > 180


def test_a_turned_picture_is_turned_back():
    pixels = torch.zeros(4, 8, 3, dtype=torch.uint8)
    pixels[:, :4] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    found = read_picture(file_of(pixels, exif=exif), (3, 8, 4), 1000)
    assert found[:, :4].min() == 255
    assert found[:, 4:].max() == 0


def huge_png(side: int) -> bytes:
    """Return a small file that says it is a picture of ``side`` x ``side``."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(10**6))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("side", "got"), [(60000, "far more"), (5000, "5000 x 5000")])
def test_a_bomb_is_refused_before_it_is_unpacked(side, got):
    with pytest.raises(Refusal, match=f"may have 1000 pixels, got {got}") as refusal:
        read_picture(huge_png(side), (3, 8, 8), 1000)
    assert refusal.value.status == 413


@pytest.mark.parametrize(
    "data", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"<svg/>", huge_png(20)[:44]]
)
def test_what_is_no_picture_is_refused(data):
    with pytest.raises(Refusal, match="no readable JPEG or PNG") as refusal:
        read_picture(data, (3, 8, 8), 1000)
    assert refusal.value.status == 400
    assert "object at" not in refusal.value.sentence


@pytest.mark.parametrize("channels", [1, 3])
def test_a_mosaic_shows_every_image(channels):
    images = torch.arange(0, 50, 10).view(5, 1, 1, 1).expand(5, channels, 4, 4).to(torch.uint8)
    with Image.open(io.BytesIO(mosaic(images))) as sheet:
        shown = {sheet.convert("L").getpixel((x, y)) for x in (1, 6, 11) for y in (1, 6)}
    assert shown == {0, 10, 20, 30, 40, 255}
