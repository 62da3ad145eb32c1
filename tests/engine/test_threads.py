"""One adapter asked from many threads at once: as if the calls had come one after another."""

import threading

import pytest
import torch

from multipool.methods import METHODS, adapt

THREADS, CALLS = 8, 2
CASES = [(name, None) for name in METHODS] + [("rotta", "mcm"), ("petta", "mcm+"), ("note", "fifo")]


@pytest.fixture(autouse=True)
def one_core_a_thread():
    """Let no operation start threads of its own: eight times as many would only wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def build(make_net, make_images):
    def make(name, memory):
        images = make_images(96, seed=77)
        source = [(images[i : i + 32], torch.arange(32) % 5) for i in (0, 32, 64)]
        return adapt(make_net(), name, memory, source=source, seed=1)

    return make


@pytest.mark.parametrize(("name", "memory"), CASES)
def test_eight_threads_leave_the_state_of_some_order(build, make_images, name, memory):
    adapter, entered, answers = build(name, memory), [], {}
    # Each batch has a size of its own, so that the order can be read from the sizes.
    batches = {20 + i: make_images(20 + i, seed=i) for i in range(THREADS * CALLS)}
    advance = adapter.stepper.advance

    def recording(images):
        entered.append(len(images))
        return advance(images)

    adapter.stepper.advance = recording
    together = threading.Barrier(THREADS)

    def work(number):
        together.wait()
        for call in range(CALLS):
            size = 20 + THREADS * call + number
            answers[size] = adapter(batches[size])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert sorted(entered) == sorted(batches)

    alone = build(name, memory)
    for size in entered:
        assert torch.equal(alone(batches[size]), answers[size])
    first, second = adapter.state_dict(), alone.state_dict()
    assert all(torch.equal(first[k], second[k]) for k in first)


def test_looking_and_saving_meanwhile_disturb_nobody(build, make_images, tmp_path):
    adapter, alone = build("rotta", "mcm"), build("rotta", "mcm")
    done = threading.Event()

    def watch(number):
        while not done.is_set():
            assert adapter.predict(make_images(3 + number)).isfinite().all()
            adapter.save(tmp_path / f"{number}.safetensors")

    watchers = [threading.Thread(target=watch, args=(i,)) for i in range(2)]
    [t.start() for t in watchers]
    try:
        for t in range(5):
            x = make_images(40, seed=t)
            assert torch.equal(adapter(x), alone(x))
    finally:
        done.set()
        [t.join() for t in watchers]


@pytest.mark.parametrize("what", ["state_dict", "load_state_dict"])
def test_a_state_is_read_and_written_between_steps_only(build, make_images, what):
    adapter = build("rotta", "fifo")
    start, inside, done = adapter.state_dict(), threading.Event(), threading.Event()
    add, found = adapter.memory.add, []

    def slow(*args, **kwargs):
        """Let another thread try in the middle of a step: after the bank, before the counting."""
        add(*args, **kwargs)
        inside.set()
        done.wait(timeout=0.2)

    def other():
        inside.wait(timeout=10)
        if what == "state_dict":
            found.append(adapter.state_dict())
        else:
            adapter.load_state_dict(start)
        done.set()

    adapter.memory.add = slow
    thread = threading.Thread(target=other)
    thread.start()
    adapter(make_images(40))
    thread.join()
    if what == "state_dict":
        assert found[0]["number.seen"] == found[0]["memory.now"] == 40
    else:
        now = adapter.state_dict()
        assert all(torch.equal(start[k], now[k]) for k in start)
