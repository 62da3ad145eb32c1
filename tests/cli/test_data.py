"""``multipool data``: list, check and fetch from the command line."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from multipool.cli.data import app
from multipool.data import DATASETS
from multipool.data import fetch as room
from multipool.data.catalog import CATALOG


@pytest.fixture(autouse=True)
def own_places(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("MULTIPOOL_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("MULTIPOOL_DATA", raising=False)


def run(*args):
    return CliRunner().invoke(app, [str(a) for a in args])


def save(path):
    images = np.zeros((20, 32, 32, 3), np.uint8)
    np.savez(path, images=images, labels=np.arange(20) % 10)


def test_list_names_every_dataset_with_its_licence_and_place(tmp_path):
    save(tmp_path / "cifar10_test.npz")
    shown = json.loads(run("list", "--json", "--data-dir", tmp_path).stdout)["datasets"]
    assert [row["name"] for row in shown] == list(DATASETS)
    assert all(row["licence"] and row["where"] for row in shown)
    assert [row["name"] for row in shown if row["here"]] == ["shapes-c", "cifar10-c"]
    assert shown[2]["where"] == str(tmp_path / "CIFAR-100-C")
    table = run("list")
    assert table.exit_code == 0
    assert all(name in table.stdout for name in DATASETS)


def test_check_tells_whole_from_damaged_from_absent_by_its_exit_code(tmp_path):
    save(tmp_path / "cifar10_test.npz")
    whole = run("check", "cifar10-c", "--data-dir", tmp_path)
    assert whole.exit_code == 0
    assert "complete" in whole.stdout
    absent = run("check", "cifar100-c", "--data-dir", tmp_path)
    assert absent.exit_code == 1
    assert "no CIFAR-100 test images" in " ".join(absent.output.split())
    assert run("check", "--data-dir", tmp_path).exit_code == 0  # absent ones were not asked for
    (tmp_path / "cifar10_test.npz").write_bytes(b"junk")
    damaged = run("check", "--json", "--data-dir", tmp_path)
    assert damaged.exit_code == 1
    states = {r["name"]: r["state"] for r in json.loads(damaged.stdout)["datasets"]}
    assert states["cifar10-c"] == "damaged"


def test_check_names_the_domains_of_a_part_of_domainnet(tmp_path):
    home = tmp_path / "domainnet126"
    (home / "clipart").mkdir(parents=True)
    (home / "clipart" / "a.jpg").write_bytes(b"junk")  # not decoded without --decode
    (home / "clipart_list.txt").write_text("clipart/a.jpg 0\n")
    done = run("check", "domainnet126", "--json", "--data-dir", tmp_path)
    assert done.exit_code == 1
    (report,) = json.loads(done.stdout)["datasets"]
    assert report["state"] == "damaged"  # its list is not the published one
    assert report["found"] == "1 of 4 domains (clipart), 1 images, 126 classes"
    assert "the published one 18,523" in report["faults"][0]


def test_a_part_is_no_success_whether_it_was_asked_for_or_not(tmp_path, monkeypatch):
    home = tmp_path / "domainnet126"
    (home / "clipart").mkdir(parents=True)
    (home / "clipart" / "a.jpg").write_bytes(b"junk")
    (home / "clipart_list.txt").write_bytes(b"clipart/a.jpg 0\n")
    entry = CATALOG["domainnet126"]
    md5 = hashlib.md5(b"clipart/a.jpg 0\n").hexdigest()
    items = tuple(replace(item, md5=md5) for item in entry.downloads)
    monkeypatch.setitem(CATALOG, "domainnet126", replace(entry, downloads=items))
    for names in (("domainnet126",), ()):
        done = run("check", *names, "--data-dir", tmp_path)
        assert done.exit_code == 1
        assert "incomplete" in done.stdout
        assert "has no real_list.txt" in " ".join(done.output.split())


def test_fetch_without_a_network_is_one_sentence_and_the_manual_steps(tmp_path, monkeypatch):
    def unreachable(*args, **kwargs):
        raise OSError("Name or service not known")

    monkeypatch.setattr(room.urllib.request, "urlopen", unreachable)
    done = run("fetch", "cifar10-c", "--data-dir", tmp_path, "--quiet")
    assert done.exit_code == 1
    first, *steps = done.output.strip().splitlines()
    assert first.startswith("error: cannot fetch CIFAR-10-C.tar from zenodo.org: Name or service")
    assert steps[0].strip().startswith("1. download https://zenodo.org/records/2535967")
    assert list(tmp_path.iterdir()) == []


def test_fetch_needs_a_folder():
    assert isinstance(run("fetch", "cifar10-c").exception, ValueError)


@pytest.mark.parametrize("command", [(), ("list",), ("check",), ("fetch",)])
def test_every_help_has_an_example(command):
    assert "Example: multipool data" in run(*command, "--help").stdout
