"""Readers of arrays and pictures: .npy, .npz, CIFAR's pickles, picture files."""

import io
import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image
from reader import Reader
from tensor_readers import pickle_specials

from multipool.data.arrays import load_npz
from multipool.data.cifar import OfficialArrays
from multipool.data.files import Framing, decode
from multipool.data.pickles import load_batches

SIZE, DOMAIN = 32, "fog"
FRAMING = Framing(64, 72)
FORMATS = {"png": "PNG", "jpeg": "JPEG", "bmp": "BMP", "webp": "WEBP", "ppm": "PPM", "tiff": "TIFF"}


def _pixels(count: int = 10) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, SIZE, SIZE, 3), dtype=np.uint8)


def npy_header(descr: str, shape: str, order: str = "False", extra: str = "") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, {extra}}}"
    text = text.ljust(-(-(len(text) + 11) // 64) * 64 - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def npy_specials(data: bytes) -> list[bytes]:
    """Headers that lie about shape, kind and order, or hold something to be evaluated."""
    body, u1 = data[128:], "'|u1'"
    shapes = (f"({2**60},)", "(-1,)", f"({2**40}, 32, 32, 3)", "(0,)", "()", "(10, 32, 32, 3, 1)")
    shapes += (f"({2**32}, {2**32}, 32, 3)", "'x'", "(1.5,)", "(True,)", "(" * 300 + ")" * 300)
    kinds = ("'|O'", "'<f8'", "'V99999999999'", "'|S0'", "[('a', '|O')]", "'<M8[ns]'", "None")
    found = [npy_header(u1, shape) + body for shape in shapes]
    found += [npy_header(kind, "(10, 32, 32, 3)") + body for kind in kinds]
    found += [npy_header(u1, "(10, 32, 32, 3)", "True") + body]
    found += [npy_header(u1, "(10,)", extra="'x': __import__('os').system('touch executed')")]
    found += [b"\x93NUMPY\x03\x00" + struct.pack("<I", 2**32 - 1) + body, b"", b"\x93NUMPY"]
    objects = io.BytesIO()
    np.save(objects, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return [*found, objects.getvalue()]


def _official(folder: Path, damaged: str) -> Path:
    np.save(folder / "labels.npy", np.tile(np.arange(2), 5))
    np.save(folder / f"{DOMAIN}.npy", _pixels())
    return folder / damaged


def _read_official(path: Path) -> object:
    arrays = OfficialArrays(path.parent, 10, (DOMAIN,))
    return [arrays.labels(DOMAIN), arrays.read(DOMAIN, 5, np.arange(2))]


def _sound_official(value: object) -> None:
    labels, images = value
    assert labels.dtype == np.int64
    assert len(labels) == 2
    assert ((labels >= 0) & (labels < 10)).all()
    assert tuple(images.shape) == (2, 3, SIZE, SIZE)


def _make_npz(folder: Path) -> Path:
    path, names = folder / "cifar10_test.npz", np.array([f"class {k}" for k in range(10)])
    np.savez_compressed(path, images=_pixels(4), labels=np.arange(4), classes=names)
    return path


def _read_npz(path: Path) -> object:
    found = load_npz(path, 10, SIZE)
    return [found.images, found.labels, found.classes]


def npz_specials(data: bytes) -> list[bytes]:
    import zipfile

    found = [b"", b"PK\x05\x06" + b"\x00" * 18, npy_header("'|u1'", "(4,)") + b"\x00" * 4]
    contents = {
        "images.npy": [*npy_specials(data), npy_header("'|u1'", f"({2**20}, 32, 32, 3)")],
        "../images.npy": [b"x"],
        "images": [b"x" * 3000],
        "labels.npy": [pickle.dumps({}), npy_header("'|O'", "(4,)") + pickle.dumps([1])],
    }
    for name, bodies in contents.items():
        for body in bodies:
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
                file.writestr(name, body)
            found.append(buffer.getvalue())
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("images.npy", b"\x00" * (70 * 2**20))
    return [*found, bomb.getvalue()]


def _sound_set(value: object) -> None:
    images, labels, classes = value
    assert images.dtype == np.uint8
    assert images.shape == (len(labels), SIZE, SIZE, 3)
    assert ((labels >= 0) & (labels < 10)).all()
    assert classes is None or (len(classes) == 10 and all(type(name) is str for name in classes))


def _make_batches(folder: Path, damaged: str) -> Path:
    rows = _pixels(4).reshape(4, -1)
    batch = {b"data": rows, b"labels": [0, 1, 2, 9], b"batch_label": b"x"}
    meta = {b"label_names": [f"class {k}".encode() for k in range(10)]}
    (folder / "test_batch").write_bytes(pickle.dumps(batch, 2))
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, 2))
    return folder / damaged


def _read_batches(path: Path) -> object:
    found = load_batches(path.parent, 10, "test")
    return [found.images, found.labels, found.classes]


def batch_specials(data: bytes) -> list[bytes]:
    rows = _pixels(4).reshape(4, -1)
    ragged = [[1, 2], [3]]
    lies = [
        {b"data": value, b"labels": labels}
        for value in (rows, rows.astype(np.float32), rows[:0], [1], b"x", rows[:, :5], None)
        for labels in ([0, 1, 2, 3], [0], None, "abcd", ragged, [2**70] * 4, [-1] * 4, [True] * 4)
    ]
    lies += [
        {b"label_names": value} for value in ([1] * 10, [b"\xff"] * 10, "abcdefghij", [[]] * 10)
    ]
    found = [pickle.dumps(lie, 2) for lie in lies]
    # An array that claims 2^60 rows, and one of Python objects.
    state = rows.__reduce__()
    for shape, kind, body in (((2**60,), "u1", b"x"), ((4,), "O", [1, 2]), ((4, 3072), "u1", "x")):
        found.append(pickle.dumps(_Raw(state[0], shape, np.dtype(kind), body), 2))
    return [*pickle_specials(data), *found]


class _Raw:
    """Pickles as an array with a state of our choice."""

    def __init__(self, rebuild: object, shape: tuple[int, ...], kind: object, body: object) -> None:
        self.parts = rebuild, shape, kind, body

    def __reduce__(self) -> tuple[object, ...]:
        rebuild, shape, kind, body = self.parts
        return rebuild, (np.ndarray, (0,), b"b"), (1, shape, kind, False, body)


def _picture(ending: str) -> Reader:
    def make(folder: Path) -> Path:
        path = folder / f"picture.{ending}"
        smooth = np.linspace(0, 255, 12 * 14 * 3).reshape(14, 12, 3).astype(np.uint8)
        Image.fromarray(smooth).save(path, format=FORMATS[ending])
        return path

    return Reader(make, lambda path: decode(path, FRAMING), _sound_picture, picture_specials)


def _sound_picture(value: object) -> None:
    assert value.shape == (64, 64, 3)
    assert value.dtype == np.uint8


def png(width: int, height: int, body: bytes = b"") -> bytes:
    """Return a PNG that claims a size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def picture_specials(data: bytes) -> list[bytes]:
    """Decompression bombs, sizes that lie, formats that are not accepted."""
    found = [b"", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"GIF89a" + b"\x01" * 40]
    found += [
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"P6\n1 1\n",
        b"P6\n9999999 9999999\n255\n",
    ]
    sizes = ((2**31 - 1, 2**31 - 1), (60_000, 60_000), (0, 5), (1, 2**26), (2**26, 1), (8000, 8000))
    found += [png(*size) for size in sizes]
    found += [png(1, 60_000, b"\x00" * 240_000), png(60_000, 1, b"\x00" * 180_001)]
    found += [png(20_000, 20_000, b"\x00" * 1_000_000), png(4, 4, b"\x00" * 10**7)]
    found += [b"BM" + struct.pack("<IHHIIiiHHI", 0, 0, 0, 54, 40, 2**31 - 1, -(2**31), 1, 24, 0)]
    found += [b"RIFF" + struct.pack("<I", 2**32 - 1) + b"WEBPVP8X" + b"\xff" * 30]
    found += [
        b"II*\x00" + struct.pack("<I", 2**32 - 1),
        b"MM\x00*" + b"\x00\x00\x00\x08" + b"\xff" * 40,
    ]
    return found


ARRAY_READERS = {
    "images of CIFAR-C, npy": Reader(
        lambda folder: _official(folder, f"{DOMAIN}.npy"),
        _read_official, _sound_official, npy_specials,
    ),
    "labels of CIFAR-C, npy": Reader(
        lambda folder: _official(folder, "labels.npy"),
        _read_official, _sound_official, npy_specials,
    ),
    "images and labels, npz": Reader(_make_npz, _read_npz, _sound_set, npz_specials),
    "a CIFAR batch, pickle": Reader(
        lambda folder: _make_batches(folder, "test_batch"),
        _read_batches, _sound_set, batch_specials,
    ),
    "CIFAR's class names, pickle": Reader(
        lambda folder: _make_batches(folder, "batches.meta"),
        _read_batches, _sound_set, batch_specials,
    ),
    **{f"a picture, {ending}": _picture(ending) for ending in FORMATS},
}  # fmt: skip
