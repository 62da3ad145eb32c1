"""``reset_every`` around any method (methods.md 5.9)."""

import pytest
import torch

from multipool.methods import METHODS, adapt, load


@pytest.fixture
def make(make_net, make_images):
    def build(name, **more):
        images = make_images(96, seed=77)
        labels = torch.arange(96) % 5
        source = [(images[i : i + 32], labels[i : i + 32]) for i in (0, 32, 64)]
        return adapt(make_net(), name, source=source, seed=1, **more)

    return build


@pytest.mark.parametrize("name", METHODS)
def test_after_the_period_everything_learned_is_gone(make, make_images, name):
    fresh, adapter = make(name), make(name, reset_every=3)
    start = adapter.state_dict()
    for t in range(3):
        adapter(make_images(64, seed=t))
    now = adapter.state_dict()
    goes_on = {"generator.draws", "generator.noise", "number.updates"}
    assert all(torch.equal(now[k], start[k]) for k in start.keys() - goes_on)
    # The prediction of the next batch is that of a new adapter.
    torch.testing.assert_close(adapter(make_images(64, seed=9)), fresh(make_images(64, seed=9)))


def test_the_batch_that_completes_the_period_is_predicted_before_the_reset(make, make_images):
    plain, adapter = make("tent"), make("tent", reset_every=2)
    for t in range(2):
        assert torch.equal(plain(make_images(32, seed=t)), adapter(make_images(32, seed=t)))
    assert not torch.equal(plain.method.student.affine, adapter.method.student.affine)


def test_each_period_draws_its_own_views(make, make_images):
    adapter, x = make("roid", reset_every=1), make_images(32)
    states = []
    for _ in range(2):
        adapter(x)
        states.append(adapter.state_dict()["generator.draws"])
    assert not torch.equal(states[0], states[1])


def test_saved_in_the_middle_of_a_period_it_resets_when_due(make, make_net, make_images, tmp_path):
    adapter = make("rotta", reset_every=4)
    for t in range(3):
        adapter(make_images(64, seed=t))
    adapter.save(tmp_path / "state.safetensors")
    again = load(tmp_path / "state.safetensors", make_net())
    for t in range(3, 6):
        assert torch.equal(adapter(make_images(64, seed=t)), again(make_images(64, seed=t)))
    assert (
        again.method.numbers == adapter.method.numbers == {"seen": 128, "updates": 6, "batches": 2}
    )


def test_the_users_period_goes_before_the_methods_own(make, make_images):
    adapter = make("rdumb", reset_every=2, options={"reset_every": 3, "redundancy": 1.1})
    for t in range(2):
        adapter(make_images(32, seed=t))
    assert torch.equal(adapter.method.student.affine, adapter.network.source.affine)


def test_bad_input_is_no_batch(make, make_images):
    adapter = make("tent", reset_every=2)
    adapter(make_images(8))
    with pytest.raises(ValueError, match="images must"):
        adapter(make_images(8)[0])
    assert not torch.equal(adapter.method.student.affine, adapter.network.source.affine)


def test_a_period_of_no_batches_is_refused(make):
    with pytest.raises(ValueError, match="reset_every must be a whole number of at least 1, got 0"):
        make("source", reset_every=0)
