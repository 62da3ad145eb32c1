"""Readers of archives: unpacked whole or not at all, and never outside their folder."""

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from reader import Reader

from multipool.data.archives import extract, members

FILES = {"set/a.txt": b"first" * 40, "set/inner/b.bin": bytes(range(256)) * 4, "set/c.txt": b""}
NAMES = (
    "../out",
    "/tmp/out-of-the-archive",
    "a/../../out",
    "..",
    ".",
    "",
    "C:\\x",
    "..\\out",
    "a\x00b",
)
NAMES += ("a" * 3000, "a/" * 2000 + "b", "set/a.txt/b", "\udcff", "a//b", "./a")


def _tar(mode: str, files: dict[str, bytes] = FILES, change: Callable | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as file:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            if change is not None:
                change(entry)
            file.addfile(entry, io.BytesIO(content) if entry.isreg() else None)
    return buffer.getvalue()


def _zip(files: dict[str, bytes] = FILES, change: Callable | None = None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            if change is not None:
                change(entry)
            file.writestr(entry, content)
    return buffer.getvalue()


def _as(kind: bytes, target: str) -> Callable[[tarfile.TarInfo], None]:
    def change(entry: tarfile.TarInfo) -> None:
        entry.type, entry.linkname = kind, target

    return change


def tar_specials(data: bytes) -> list[bytes]:
    """Names that leave, links and devices, a file through a link, bombs, sizes that lie."""
    found = [
        b"",
        b"\x00" * 10240,
        *(_tar("w", {name: b"x"}) for name in NAMES if "\udcff" not in name),
    ]
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)
    for kind in kinds:
        for target in ("..", "/etc/passwd", "set/a.txt", "../../out"):
            found.append(_tar("w", {"set/link": b"", "set/d": b""}, _as(kind, target)))
    both = io.BytesIO()
    with tarfile.open(fileobj=both, mode="w") as file:
        link = tarfile.TarInfo("set")
        link.type, link.linkname = tarfile.SYMTYPE, ".."
        file.addfile(link)
        inside = tarfile.TarInfo("set/written-through-a-link")
        inside.size = 1
        file.addfile(inside, io.BytesIO(b"x"))
    plain = _tar("w")
    for size in (
        b"77777777777\x00",
        b"\x80" + b"\x00" * 3 + b"\x10" + b"\x00" * 7,
        b"-0000000001\x00",
    ):
        found.append(plain[:124] + size + plain[136:])
    found.append(_tar("w:gz", {"bomb": b"\x00" * (70 * 2**20)}))
    found += [
        both.getvalue(),
        _tar("w", {"a": b"1", "A": b"2"}),
        _tar("w", {"a": b"1", "a/b": b"2"}),
    ]
    found += [
        _tar("w:gz"),
        _tar("w:bz2"),
        _tar("w:xz"),
        _tar("w", dict.fromkeys(("a", "./a"), b"x")),
    ]
    return found


def zip_specials(data: bytes) -> list[bytes]:
    found = [b"", b"PK\x05\x06" + b"\x00" * 18]
    for name in NAMES:
        try:
            found.append(_zip({name: b"x"}))
        except (ValueError, UnicodeError):
            continue  # not even Python writes it

    def link(entry: zipfile.ZipInfo) -> None:
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16

    found += [_zip({"set/link": b"../../out"}, link), _zip({"a": b"1", "a/b": b"2"})]
    found.append(_zip({"bomb": b"\x00" * (70 * 2**20)}))
    # A size in the directory that lies: less than is inside, so that a limit would be passed by.
    bomb = _zip({"bomb": b"\x00" * (70 * 2**20)})
    size = (70 * 2**20).to_bytes(4, "little")
    return [*found, bomb.replace(size, (10).to_bytes(4, "little"))]


def _make(name: str, content: Callable[[], bytes]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "given" / name
        path.parent.mkdir()
        path.write_bytes(content())
        return path

    return make


def _unpack(path: Path) -> object:
    """Extract into a folder inside a folder, and read the members as well."""
    goal = path.parent / "unpacked"
    try:
        extract(path, goal)
        return sorted(
            (str(p.relative_to(goal)), p.read_bytes()) for p in goal.rglob("*") if p.is_file()
        )
    finally:
        links = [p for p in path.parent.parent.rglob("*") if p.is_symlink()]
        left = [p for p in goal.glob(".unpacking-*")] if goal.exists() else []
        outside = [p for p in path.parent.parent.iterdir() if p.name != "given"]
        strange = [*links, *left, *outside]
        assert not strange, f"it left {strange}"
        _remove(goal)


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _members(path: Path) -> object:
    return sorted(members(path))


def _sound_files(value: object) -> None:
    for name, content in value:
        assert not name.startswith(("/", "../"))
        assert isinstance(content, bytes)


ARCHIVE_READERS = {
    "a tar, unpacked": Reader(
        _make("a.tar", lambda: _tar("w")), _unpack, _sound_files, tar_specials
    ),
    "a tar.gz, unpacked": Reader(
        _make("a.tar.gz", lambda: _tar("w:gz")), _unpack, _sound_files, tar_specials
    ),
    "a zip, unpacked": Reader(_make("a.zip", _zip), _unpack, _sound_files, zip_specials),
    "a tar, its members": Reader(
        _make("a.tar", lambda: _tar("w")), _members, _sound_files, tar_specials
    ),
    "a zip, its members": Reader(_make("a.zip", _zip), _members, _sound_files, zip_specials),
}
