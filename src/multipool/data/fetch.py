"""Fetch the official files of a dataset: resumed where it stopped, checked, unpacked safely."""

from __future__ import annotations

import contextlib
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from multipool.core import brief, lookup
from multipool.data.archives import extract
from multipool.data.catalog import CATALOG, Download

DOWNLOADS = ".downloads"  # inside the data folder; what is half there waits here
TIMEOUT = 30  # seconds without a byte
CHUNK = 2**20
SLACK = 1.1  # times the size in the catalogue, what is taken at most before the checksum refuses it

Tell = Callable[[str, int, int], None]  # file, bytes so far, bytes in all


class FetchError(RuntimeError):
    """A file could not be fetched; the text is one sentence, ``steps`` are the manual way."""

    def __init__(self, sentence: str, steps: tuple[str, ...]) -> None:
        super().__init__(sentence)
        self.steps = steps


class OversizeError(ValueError):
    """A server sends more than a file can have."""


def fetch(name: str, data_dir: Path, tell: Tell | None = None) -> list[Path]:
    """Bring every official file of a dataset into ``data_dir``; return what is there then.

    What is there already is left alone. A broken connection keeps what came; the next call goes
    on from there. A file with a wrong checksum is thrown away.
    """
    entry = lookup(CATALOG, name, "dataset")
    if not entry.downloads:
        raise ValueError(f"there is nothing to fetch for {name}: {entry.about}")
    missing = [item for item in entry.downloads if not (data_dir / item.goal).exists()]
    data_dir.mkdir(parents=True, exist_ok=True)
    _check_space(data_dir, sum(item.size for item in missing))
    try:
        for item in missing:
            _bring(item, data_dir, tell)
    except (OSError, HTTPException) as error:
        host = urlsplit(item.url).hostname
        raise FetchError(
            f"cannot fetch {item.file} from {host}: {_reason(error)}", manual_steps(name, data_dir)
        ) from None
    finally:
        with contextlib.suppress(OSError):  # what is half there stays
            (data_dir / DOWNLOADS).rmdir()
    return [data_dir / item.goal for item in entry.downloads]


def manual_steps(name: str, data_dir: Path) -> tuple[str, ...]:
    """Return what a person does by hand to have a dataset, a line each.

    >>> manual_steps("cifar10-c", Path("data"))[0].split(" (")[0]
    'download https://zenodo.org/records/2535967/files/CIFAR-10-C.tar?download=1'
    """
    entry = lookup(CATALOG, name, "dataset")
    steps = []
    for item in entry.downloads:
        steps.append(f"download {item.url} ({item.checksum.replace(':', ' ')})")
        if item.archive:
            steps.append(f"unpack {item.file} into {data_dir / item.into}")
        else:
            steps.append(f"put it at {data_dir / item.goal}")
    if entry.manual:
        steps.append(entry.manual)
    return (*steps, f"'multipool data check {name} --data-dir {data_dir}' says whether it is right")


def _bring(item: Download, data_dir: Path, tell: Tell | None) -> None:
    """Download one file, let pooch compare its checksum, and put it where it belongs."""
    import pooch

    waiting = data_dir / DOWNLOADS
    waiting.mkdir(exist_ok=True)
    part = waiting / f"{item.file}.part"

    def download(url: str, output_file: str, _: object) -> None:
        show = (lambda done, total: tell(item.file, done, total)) if tell else None
        resume(url, part, show, most=int(SLACK * item.size))
        part.replace(output_file)

    pooch.get_logger().setLevel("WARNING")
    try:
        got = Path(pooch.retrieve(item.url, item.checksum, item.file, waiting, downloader=download))
    except OversizeError as error:
        raise ValueError(f"{item.file} from {item.url} {error}; nothing of it was kept") from None
    except ValueError:
        raise ValueError(
            f"{item.file} from {item.url} does not have the published sum {item.checksum}; "
            "it was thrown away, fetch it again"
        ) from None
    if item.archive:
        extract(got, data_dir / item.into)
        got.unlink()
    else:
        (data_dir / item.goal).parent.mkdir(parents=True, exist_ok=True)
        got.replace(data_dir / item.goal)


def resume(
    url: str, part: Path, tell: Callable[[int, int], None] | None = None, *, most: int
) -> None:
    """Download ``url`` to ``part``, going on after the bytes that are there.

    A server that cannot continue sends everything again. An ``OSError`` leaves ``part`` as it is;
    more than ``most`` bytes, announced or sent, are refused and nothing stays.
    """
    have = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing is left to send: the checksum will tell
            return
        raise
    with answer:
        if urlsplit(url).scheme == "https" != urlsplit(answer.url).scheme:
            raise ConnectionError(f"the server sends to {brief(answer.url)}, which is not https")
        if answer.status != 206:
            have = 0
        total = have + int(answer.headers.get("Content-Length") or 0)
        _check_size(part, total, most)
        with part.open("ab" if have else "wb") as file:
            while block := answer.read(CHUNK):
                have += len(block)
                _check_size(part, have, most)
                file.write(block)
                if tell is not None:
                    tell(have, total)
    if have < total:
        raise ConnectionError(f"the connection broke after {have:,} of {total:,} bytes")


def _check_size(part: Path, size: int, most: int) -> None:
    if size > most:
        part.unlink(missing_ok=True)
        raise OversizeError(f"has {size:,} bytes or more, expected at most {most:,}")


def _reason(error: BaseException) -> str:
    cause = getattr(error, "reason", None) or error
    text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return str(text).splitlines()[0]


def _check_space(data_dir: Path, size: int) -> None:
    """Refuse to begin what cannot fit: the archive and what comes out of it."""
    free = shutil.disk_usage(data_dir).free
    if free < 2 * size:
        raise ValueError(
            f"{data_dir} has {free / 1e9:.1f} GB free, fetching needs about {2 * size / 1e9:.1f} GB"
        )
