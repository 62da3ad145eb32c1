"""The measurement of the host's share: a stream played back is the stream, without its passes."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from multipool.engine.graphs import Graphed

PATH = Path(__file__).parents[2] / "tools" / "speed" / "host.py"


@pytest.fixture
def host(monkeypatch):
    spec = importlib.util.spec_from_file_location("host_time", PATH)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "host_time", module)
    spec.loader.exec_module(module)
    for waits in (found := module.waiting()):
        monkeypatch.setattr(waits, "Arriving", waits.Arriving)  # put back afterwards
    assert len(found) >= 3
    monkeypatch.setattr(Graphed, "__call__", Graphed.__call__)
    return module


@pytest.mark.parametrize("stream", ["domains", "colours", "runs"])
def test_streams_are_images_of_eight_bits(host, stream):
    given = host.batches(stream, 4, 3, torch.Generator().manual_seed(0))
    assert [(images.shape, images.dtype) for images in given] == [
        (torch.Size([4, 3, 32, 32]), torch.uint8)
    ] * 3
    assert not torch.equal(given[0], given[1])


def test_what_is_played_back_is_what_was_recorded(host, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    model, given = host.small_model(generator), host.batches("domains", 8, 4, generator)
    answers, adapt = [], host.multipool.adapt

    def listening(*args, **named):
        adapter = adapt(*args, **named)
        forward = adapter.forward
        adapter.forward = lambda images: answers.append(forward(images))
        return adapter

    monkeypatch.setattr(host.multipool, "adapt", listening)
    tape = host.Tape()
    monkeypatch.setattr(Graphed, "__call__", lambda graphed, *inputs: tape(graphed, *inputs))
    assert host.turn(model, given, tape).shape == (4, 2)
    ran = len(tape.kept)
    tape.place = 0
    assert (host.turn(model, given, tape) > 0).all()
    assert len(tape.kept) == tape.place == ran  # every pass again, and none computed
    assert all(torch.equal(a, b) for a, b in zip(answers[:4], answers[4:], strict=True))


@pytest.mark.parametrize("more", [[], ["--waits"]])
def test_it_prints_one_line(host, monkeypatch, capsys, more):
    arguments = ["host.py", "--size", "4", "--batches", "5", "--turns", "1"]
    monkeypatch.setattr("sys.argv", arguments + more)
    slept, threads = [], torch.get_num_threads()
    monkeypatch.setattr(host.time, "sleep", slept.append)
    host.main()
    torch.set_num_threads(threads)
    assert capsys.readouterr().out.startswith("domains 4: ms a batch, median mean: ")
    assert (sum(slept) > 0) is bool(more)
