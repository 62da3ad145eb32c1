"""The protocol from the outside: an unchanged client of somebody else's, and curl."""

import asyncio
import json
import shutil
import subprocess

import numpy as np
import pytest
import torch
import tritonclient.http as triton

import multipool


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("datatype", ["FP32", "UINT8"])
def test_tritons_client_gets_what_the_adapter_says(live, tiny_net, make_images, binary, datatype):
    client = triton.InferenceServerClient(live().address)
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("tiny")
    assert client.get_model_metadata("tiny")["inputs"][0]["shape"] == [-1, 3, 8, 8]
    adapters = {7: multipool.adapt(tiny_net), "north": multipool.adapt(tiny_net)}
    for step in range(4):
        for offset, (stream, adapter) in enumerate(adapters.items()):
            images = make_images(6, seed=2 * step + offset)
            if datatype == "UINT8":
                images = (images * 255).round().to(torch.uint8)
            tensor = triton.InferInput("images", list(images.shape), datatype)
            tensor.set_data_from_numpy(images.numpy(), binary_data=binary)
            wanted = [triton.InferRequestedOutput(n, binary) for n in ("logits", "labels")]
            outputs = None if step == 0 else wanted
            found = client.infer("tiny", [tensor], outputs=outputs, sequence_id=stream)
            expected = adapter(images)
            assert np.array_equal(found.as_numpy("logits"), expected.numpy())
            assert np.array_equal(found.as_numpy("labels"), expected.argmax(dim=1).numpy())


def test_tritons_sequence_begins_anew_and_rests(live, tiny_net, make_images):
    client = triton.InferenceServerClient(live().address)

    def ask(images, **flags):
        tensor = triton.InferInput("images", list(images.shape), "FP32")
        tensor.set_data_from_numpy(images.numpy())
        found = client.infer("tiny", [tensor], sequence_id=5, **flags)
        return torch.from_numpy(found.as_numpy("logits").copy())

    images = [make_images(8, seed=i) for i in range(4)]
    adapter = multipool.adapt(tiny_net)
    assert torch.equal(ask(images[0], sequence_start=True), adapter(images[0]))
    assert torch.equal(ask(images[1], sequence_end=True), adapter(images[1]))
    assert torch.equal(ask(images[2]), adapter(images[2]))  # back from the disk
    adapter.reset()
    assert torch.equal(ask(images[3], sequence_start=True), adapter(images[3]))


def test_tritons_client_is_told_what_is_wrong(live):
    client = triton.InferenceServerClient(live().address)
    tensor = triton.InferInput("images", [1, 3, 4, 4], "FP32")
    tensor.set_data_from_numpy(np.zeros((1, 3, 4, 4), dtype=np.float32))
    with pytest.raises(Exception, match=r"images must have shape \[B, 3, 8, 8\]"):
        client.infer("tiny", [tensor])


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
def test_curl_gets_an_answer(live, tiny_net, make_images, infer_json, tmp_path):
    images = make_images(2)
    (tmp_path / "request.json").write_text(json.dumps(infer_json(images, sequence_id="c")))
    url = f"http://{live().address}/v2/models/tiny/infer"
    command = ["curl", "-sS", "--fail", "-d", f"@{tmp_path / 'request.json'}", url]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    logits = torch.tensor(found["outputs"][0]["data"]).view(2, 5)
    assert torch.equal(logits, multipool.adapt(tiny_net)(images))
    assert found["parameters"]["sequence_id"] == "c"


def test_what_is_only_predicted_is_not_learned(serving, infer, make_images, tiny_net):
    async def work(service, client):
        adapter = multipool.adapt(tiny_net)
        for step in range(3):
            images = make_images(8, seed=step)
            first, told = await infer(client, images, predict_only=True)
            assert torch.equal(first, adapter.predict(images))
            assert told["learned"] is False
            logits, told = await infer(client, images)
            assert torch.equal(logits, adapter(images))
            assert told["batch"] == step + 1

    serving(work)


def test_streams_at_once_never_mix(serving, infer, make_images, tiny_net):
    async def work(service, client):
        async def camera(number):
            adapter = multipool.adapt(tiny_net)
            for step in range(5):
                images = make_images(4, seed=100 * number + step)
                logits, _ = await infer(client, images, sequence_id=f"camera-{number}")
                assert torch.equal(logits, adapter(images))

        await asyncio.gather(*(camera(n) for n in range(8)))

    serving(work, lanes=2)
