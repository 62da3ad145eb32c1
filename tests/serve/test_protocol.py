"""What a request says, and every way in which it can be wrong."""

import json

import numpy as np
import pytest
import torch

from multipool.serve.batching import Reply
from multipool.serve.protocol import InferRequest, answer_infer, parse_infer
from multipool.serve.refusal import Refusal
from multipool.serve.stream import Facts

SIZE = (1, 2, 2)


def body(tensor=None, raw=b"", **rest):
    plain = {"name": "images", "datatype": "UINT8", "shape": [1, 1, 2, 2], "data": [1, 2, 3, 4]}
    return json.dumps({"inputs": [{**plain, **(tensor or {})}], **rest}).encode() + raw


def parse(content, length=None):
    return parse_infer(content, length, SIZE, 4)


def test_a_plain_request_is_read():
    found = parse(body(id="7", parameters={"sequence_id": 3, "priority": 1}))
    assert found.stream == "3"
    assert found.id == "7"
    assert (found.learn, found.start, found.end) == (True, False, False)
    assert found.outputs == (("logits", False), ("labels", False))
    assert found.images.tolist() == [[[[1, 2], [3, 4]]]]


def test_flags_and_outputs_are_read():
    flags = {"predict_only": True, "sequence_start": True, "sequence_end": True}
    outputs = [{"name": "labels", "parameters": {"binary_data": True}}, {"name": "logits"}]
    found = parse(body(parameters=flags, outputs=outputs))
    assert (found.learn, found.start, found.end) == (False, True, True)
    assert found.outputs == (("labels", True), ("logits", False))


def test_binary_tensors_follow_the_json():
    tensor = {"name": "images", "datatype": "UINT8", "shape": [1, 1, 2, 2]}
    tensor["parameters"] = {"binary_data_size": 4}
    head = json.dumps({"inputs": [tensor]}).encode()
    found = parse(head + bytes([9, 8, 7, 6]), str(len(head)))
    assert found.images.reshape(-1).tolist() == [9, 8, 7, 6]


@pytest.mark.parametrize(
    ("content", "length", "said"),
    [
        (b"", None, "is not JSON"),
        (b"\xff\xfe", None, "is not JSON"),
        (b"[" * 100000, None, "is not JSON"),
        (b"[1]", None, "must be a JSON object"),
        (b'{"inputs": NaN}', None, "it holds NaN"),
        (b"{}", None, "has one input"),
        (b'{"inputs": [1]}', None, "has one input"),
        (b'{"inputs": [{}, {}]}', None, "has one input"),
        (body({"name": "x"}), None, "the input is called 'images'"),
        (body({"data": None}), None, "must be a list of numbers"),
        (body({"parameters": 1}), None, "'parameters' must be a JSON object"),
        (body({"parameters": {"binary_data_size": 4}}), None, "without 'data' beside it"),
        (body({"parameters": {"binary_data_size": "4"}}), None, "binary_data_size must be the 0"),
        (body(parameters=[]), None, "'parameters' must be a JSON object"),
        (body(parameters={"sequence_id": "../x"}), None, "a stream's name is"),
        (body(parameters={"predict_only": "yes"}), None, "predict_only must be true or false"),
        (body(id=5), None, "id must be text"),
        (body(id="x" * 300), None, "id must be text"),
        (body(outputs=[{"name": "nope"}]), None, "outputs are logits, labels"),
        (body(outputs=[{"name": ["logits"]}]), None, "outputs are logits, labels"),
        (body(outputs=[{"name": "logits"}] * 2), None, "each once"),
        (body(outputs="logits"), None, "must be a list of at most 2"),
        (body(outputs=[{"name": "logits", "parameters": {"classification": 3}}]), None, "/predict"),
        (body(), "5", "is not JSON"),
        (body(), "-1", "Inference-Header-Content-Length"),
        (body(), "²", "Inference-Header-Content-Length"),
        (body(), "99999", "Inference-Header-Content-Length"),
        (body(raw=b"xy"), str(len(body())), "2 bytes follow the JSON"),
    ],
)
def test_what_is_wrong_is_said(content, length, said):
    with pytest.raises(Refusal) as refusal:
        parse(content, length)
    assert said in refusal.value.sentence
    assert refusal.value.status == 400
    assert "\n" not in refusal.value.sentence
    assert len(refusal.value.sentence) < 500


@pytest.mark.parametrize("binary", [True, False])
def test_an_answer_holds_exactly_the_logits(binary):
    logits = torch.randn(3, 4)
    reply = Reply(logits, Facts(batches=5), first=2, size=8)
    asked = InferRequest(np.zeros(1), "s", id="x", outputs=(("labels", False), ("logits", binary)))
    content, head = answer_infer(asked, reply, "m")
    told = json.loads(content[:head])
    assert told["id"] == "x"
    assert told["parameters"] == {
        "sequence_id": "s", "batch": 5, "batch_size": 8, "first_row": 2, "learned": True,
    }  # fmt: skip
    labels, found = told["outputs"]
    assert labels["data"] == logits.argmax(dim=1).tolist()
    if binary:
        values = np.frombuffer(content[head:], dtype="<f4")
        assert found["parameters"]["binary_data_size"] == 48
    else:
        values = np.array(found["data"], dtype=np.float32)
        assert head is None
    assert np.array_equal(values.reshape(3, 4), logits.numpy())
