"""Archives never leave their folder, never grow past a limit, and leave nothing half done."""

from __future__ import annotations

import io
import tarfile
import zipfile

import pytest

from multipool.data.archives import extract, members


def tar(path, entries, mode="w"):
    with tarfile.open(path, mode) as file:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                file.addfile(info)
            else:
                info.size = len(content)
                file.addfile(info, io.BytesIO(content))
    return path


def pack(kind, path, entries):
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in entries:
                file.writestr(name, content)
        return path
    return tar(path, entries, "w:gz" if kind == "tar.gz" else "w")


def everything(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_an_archive_comes_out_as_it_went_in(tmp_path, kind):
    archive = pack(kind, tmp_path / f"a.{kind}", [("top/a.txt", b"one"), ("top/b/c.txt", b"two")])
    assert dict(members(archive)) == {"top/a.txt": b"one", "top/b/c.txt": b"two"}
    assert dict(members(archive, lambda name: "c" in name)) == {"top/b/c.txt": b"two"}
    out = tmp_path / "out"
    assert extract(archive, out) == [out / "top"]
    assert everything(out) == ["top", "top/a.txt", "top/b", "top/b/c.txt"]
    assert (out / "top/b/c.txt").read_bytes() == b"two"


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
@pytest.mark.parametrize("name", ["../evil.txt", "a/../../evil.txt", "/tmp/evil.txt", "..\\evil"])
def test_a_member_that_leaves_its_folder_spoils_the_whole_archive(tmp_path, kind, name):
    archive = pack(kind, tmp_path / f"a.{kind}", [("good.txt", b"x"), (name, b"evil")])
    inside = tmp_path / "deep" / "out"
    with pytest.raises(
        ValueError, match="which leaves its folder; nothing of it is used"
    ) as caught:
        extract(archive, inside)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="leaves its folder"):
        list(members(archive))
    assert everything(tmp_path) == [f"a.{kind}", "deep", "deep/out"]


def test_links_are_refused(tmp_path):
    archive = tar(tmp_path / "a.tar", [("link", "/etc"), ("link/passwd", b"x")])
    with pytest.raises(ValueError, match="holds a link or device, 'link'"):
        extract(archive, tmp_path / "out")
    assert everything(tmp_path / "out") == []


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, kind):
    archive = pack(kind, tmp_path / f"bomb.{kind}", [("zeros", bytes(3 * 2**20))])
    with pytest.raises(ValueError, match="would unpack to more than 2 MB"):
        extract(archive, tmp_path / "out", limit=2 * 2**20)
    assert everything(tmp_path / "out") == []


def test_the_default_limit_stops_a_thousandfold_growth(tmp_path, monkeypatch):
    monkeypatch.setattr("multipool.data.archives.FREE_BYTES", 0)
    archive = pack("zip", tmp_path / "bomb.zip", [("zeros", bytes(2**20))])
    with pytest.raises(ValueError, match="would unpack to more than"):
        list(members(archive))


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_a_truncated_archive_is_one_sentence_and_leaves_nothing(tmp_path, kind):
    noise = bytes(range(256)) * 400
    archive = pack(kind, tmp_path / f"a.{kind}", [("a", noise), ("b", noise[::-1])])
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="is not a complete archive .*; fetch it again") as caught:
        extract(archive, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert everything(tmp_path / "out") == []


def test_what_is_there_is_never_replaced(tmp_path):
    archive = pack("tar", tmp_path / "a.tar", [("top/a.txt", b"new"), ("other", b"")])
    (tmp_path / "top").mkdir()
    with pytest.raises(ValueError, match="is there already; move it away to unpack a.tar"):
        extract(archive, tmp_path)
    assert everything(tmp_path) == ["a.tar", "top"]


def test_a_file_that_is_no_archive_is_one_sentence(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"hello")
    with pytest.raises(ValueError, match="is not a complete archive"):
        list(members(tmp_path / "a.tar"))
    with pytest.raises(FileNotFoundError, match="no archive at"):
        list(members(tmp_path / "b.tar"))
