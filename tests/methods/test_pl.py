"""PL against methods.md 3.3, step by step."""

import torch

from multipool.methods import adapt


def test_ten_steps_do_what_the_definition_does(tiny_net, batch_copy, drift, assert_follows):
    net, affine = batch_copy(tiny_net)
    optimizer = torch.optim.Adam(affine, lr=1e-3)

    def reference(x):
        z = net(x)
        loss = -z.log_softmax(1)[torch.arange(len(z)), z.argmax(1)].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return z.detach()

    assert_follows(adapt(tiny_net, "pl", guard=False), reference, drift(), affine)


def test_it_grows_surer_of_what_it_said_first(tiny_net, make_images):
    x = make_images(64)
    adapter = adapt(tiny_net, "pl", options={"lr": 1e-2})
    guess = adapter(x).argmax(1)
    before = adapter.predict(x).softmax(1)[torch.arange(64), guess].mean()
    for _ in range(5):
        adapter(x)
    assert adapter.predict(x).softmax(1)[torch.arange(64), guess].mean() > before


def test_prediction_comes_from_before_the_step(tiny_net, make_images):
    x = make_images(32)
    adapter = adapt(tiny_net, "pl", options={"lr": 0.1})
    before = adapter.predict(x)
    torch.testing.assert_close(adapter(x), before)
    assert (adapter.predict(x) - before).abs().max() > 0.1
