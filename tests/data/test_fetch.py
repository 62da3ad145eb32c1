"""Fetching from a server on this machine: whole, broken off, resumed, wrong, unreachable."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from multipool.data import fetch as room
from multipool.data.catalog import CATALOG, Download, Entry
from multipool.data.fetch import FetchError, fetch, manual_steps


@pytest.fixture
def server():
    """Serve ``server.files``; honour ranges; break off after ``server.breaks`` bytes if set."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            content = self.server.files[self.path.strip("/")]
            asked = self.headers.get("Range") if self.server.ranges else None
            first = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
            self.server.asked.append(asked)
            if first >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if asked else 200)
            self.send_header("Content-Length", str(len(content) - first))
            self.end_headers()
            self.wfile.write(content[first : self.server.breaks])

        def log_message(self, *args):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.files, running.asked, running.breaks, running.ranges = {}, [], None, True
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.fixture
def offer(server, monkeypatch):
    """Put a file on the server and a dataset ``toy`` of it into the catalogue."""

    def make(file, content, goal, sha256=None, size=None):
        server.files[file] = content
        url = f"http://127.0.0.1:{server.server_port}/{file}"
        sums = {"sha256": sha256 or hashlib.sha256(content).hexdigest()}
        size = len(content) if size is None else size
        entry = Entry("a toy", "free", (Download(file, url, "", size, goal, **sums),))
        monkeypatch.setitem(CATALOG, "toy", entry)

    return make


def archive(name="Toy/a.txt", content=b"hello" * 10_000):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as packed:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        packed.addfile(info, io.BytesIO(content))
    return file.getvalue()


def everything(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_an_archive_is_fetched_checked_unpacked_and_tidied_away(tmp_path, offer, server):
    offer("toy.tar", archive(), "Toy")
    seen = []
    places = fetch("toy", tmp_path / "new", lambda *step: seen.append(step))
    assert places == [tmp_path / "new" / "Toy"]
    assert everything(tmp_path) == ["new/Toy/a.txt"]
    assert seen[-1][1] == seen[-1][2] == len(archive())
    assert not (tmp_path / "new" / room.DOWNLOADS).exists()
    fetch("toy", tmp_path / "new")  # what is there is not fetched again
    assert len(server.asked) == 1


def test_a_plain_file_is_put_in_its_place(tmp_path, offer):
    offer("list.txt", b"a b c", "deep/list.txt")
    fetch("toy", tmp_path)
    assert (tmp_path / "deep" / "list.txt").read_bytes() == b"a b c"


def test_a_broken_download_goes_on_where_it_stopped(tmp_path, offer, server):
    offer("toy.tar", archive(), "Toy")
    server.breaks = 20_000
    with pytest.raises(FetchError, match="toy.tar from 127.0.0.1: the connection broke") as caught:
        fetch("toy", tmp_path)
    assert "\n" not in str(caught.value)
    assert (tmp_path / room.DOWNLOADS / "toy.tar.part").stat().st_size == 20_000
    server.breaks = None
    fetch("toy", tmp_path)
    assert server.asked == [None, "bytes=20000-"]
    assert everything(tmp_path) == ["Toy/a.txt"]


def test_a_server_that_cannot_go_on_sends_everything_again(tmp_path, offer, server):
    offer("toy.tar", archive(), "Toy")
    (tmp_path / room.DOWNLOADS).mkdir()
    (tmp_path / room.DOWNLOADS / "toy.tar.part").write_bytes(archive()[:999])
    server.ranges = False
    fetch("toy", tmp_path)
    assert (tmp_path / "Toy" / "a.txt").read_bytes() == b"hello" * 10_000


def test_a_download_that_was_already_whole_is_only_checked(tmp_path, offer):
    offer("toy.tar", archive(), "Toy")
    (tmp_path / room.DOWNLOADS).mkdir()
    (tmp_path / room.DOWNLOADS / "toy.tar.part").write_bytes(archive())
    fetch("toy", tmp_path)
    assert everything(tmp_path) == ["Toy/a.txt"]


def test_a_wrong_checksum_is_one_sentence_and_the_file_is_thrown_away(tmp_path, offer):
    offer("toy.tar", archive(), "Toy", sha256="0" * 64)
    with pytest.raises(ValueError, match="does not have the published sum sha256:0000") as caught:
        fetch("toy", tmp_path)
    assert "\n" not in str(caught.value)
    assert everything(tmp_path) == []


def test_an_archive_that_leaves_its_folder_writes_nothing(tmp_path, offer):
    offer("toy.tar", archive("../../evil.txt"), "Toy")
    with pytest.raises(ValueError, match="leaves its folder; nothing of it is used"):
        fetch("toy", tmp_path / "a" / "b")
    assert [name for name in everything(tmp_path) if "evil" in name] == []


def test_without_a_network_there_are_manual_steps(tmp_path, monkeypatch):
    def unreachable(*args, **kwargs):
        raise OSError("Name or service not known")

    monkeypatch.setattr(room.urllib.request, "urlopen", unreachable)
    with pytest.raises(FetchError, match="cannot fetch CIFAR-10-C.tar from zenodo.org") as caught:
        fetch("cifar10-c", tmp_path)
    assert caught.value.steps == manual_steps("cifar10-c", tmp_path)
    assert "56bf5dcef84df0e2308c6dcbcbbd8499" in caught.value.steps[0]
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_noticed_before_anything_is_fetched(tmp_path, offer, server, monkeypatch):
    offer("toy.tar", archive(), "Toy")
    monkeypatch.setattr(room.shutil, "disk_usage", lambda path: type("Free", (), {"free": 10})())
    with pytest.raises(ValueError, match="GB free, fetching needs about"):
        fetch("toy", tmp_path)
    assert server.asked == []


def test_what_cannot_be_fetched_says_so(tmp_path):
    with pytest.raises(ValueError, match="nothing to fetch for shapes-c"):
        fetch("shapes-c", tmp_path)
    with pytest.raises(ValueError, match="unknown dataset 'cifar'"):
        fetch("cifar", tmp_path)


@pytest.mark.parametrize("announced", [True, False])
def test_a_server_that_sends_more_than_a_file_can_have_is_stopped(
    tmp_path, offer, server, announced, monkeypatch
):
    offer("toy.tar", archive(), "Toy", size=1000)
    if not announced:  # as a server does that sends in chunks
        real = room.urllib.request.urlopen

        def silent(*args, **kwargs):
            answer = real(*args, **kwargs)
            del answer.headers["Content-Length"]
            return answer

        monkeypatch.setattr(room.urllib.request, "urlopen", silent)
        monkeypatch.setattr(room, "CHUNK", 512)
    with pytest.raises(ValueError, match="expected at most 1,100; nothing of it was kept"):
        fetch("toy", tmp_path)
    assert everything(tmp_path) == []


def test_every_file_comes_over_https_or_has_a_sha256_sum():
    for entry in CATALOG.values():
        for item in entry.downloads:
            assert item.url.startswith("https://") or item.sha256
    with pytest.raises(ValueError, match="must be https, or its file have a SHA-256 sum"):
        Download("a.txt", "http://a.org/a.txt", "0" * 32, 1, "a.txt")


def test_a_way_out_of_https_is_not_followed(tmp_path, monkeypatch):
    answer = io.BytesIO(b"abc")
    answer.url, answer.status, answer.headers = "http://b.org/a.txt", 200, {}
    monkeypatch.setattr(room.urllib.request, "urlopen", lambda *args, **kwargs: answer)
    with pytest.raises(ConnectionError, match="sends to http://b.org/a.txt, which is not https"):
        room.resume("https://a.org/a.txt", tmp_path / "part", most=10)
