"""Requests and answers of the Open Inference Protocol, version 2, with its binary extension.

A request is JSON, or JSON of the length that the header ``Inference-Header-Content-Length`` says,
followed by the bytes of its tensors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from multipool.serve.batching import Reply
from multipool.serve.names import stream_name
from multipool.serve.refusal import bad, shown
from multipool.serve.tensors import OUTPUT_TYPES, Array, checked_shape, from_bytes, from_json

INPUT = "images"
OUTPUTS = ("logits", "labels")


@dataclass(frozen=True)
class InferRequest:
    """What a client asks for."""

    images: Array  # (B, C, H, W)
    stream: str
    learn: bool = True
    start: bool = False
    end: bool = False
    id: str | None = None
    outputs: tuple[tuple[str, bool], ...] = ()  # name, and whether as bytes


def parse_json(body: bytes | memoryview) -> dict[str, Any]:
    """Return a JSON object, or refuse; NaN and infinity are no JSON."""
    try:
        found = json.loads(bytes(body).decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise bad(f"the request is not JSON: {shown(str(error))}") from None
    if not isinstance(found, dict):
        raise bad(f"the request must be a JSON object, got {shown(found)}")
    return found


def parse_infer(
    body: bytes, header_length: str | None, per_image: tuple[int, int, int], most: int
) -> InferRequest:
    """Return the request that a body holds, checked but for the values of its pixels."""
    length = _header_length(header_length, len(body))
    view = memoryview(body)
    content, raw = parse_json(view[:length]), view[length:]
    parameters = _object(content, "parameters")
    identifier = content.get("id")
    if identifier is not None and (not isinstance(identifier, str) or len(identifier) > 256):
        raise bad(f"a request's id must be text of up to 256 characters, got {shown(identifier)}")
    return InferRequest(
        images=_images(content, raw, per_image, most),
        stream=stream_name(parameters.get("sequence_id")),
        learn=not _flag(parameters, "predict_only"),
        start=_flag(parameters, "sequence_start"),
        end=_flag(parameters, "sequence_end"),
        id=identifier,
        outputs=_outputs(content, binary=_flag(parameters, "binary_data_output")),
    )


def answer_infer(request: InferRequest, reply: Reply, model: str) -> tuple[bytes, int | None]:
    """Return the body of an answer and, if tensors follow it as bytes, the length of its JSON."""
    arrays = {"logits": reply.logits.numpy(), "labels": reply.logits.argmax(dim=1).numpy()}
    described, tail = [], []
    for name, binary in request.outputs:
        array = np.ascontiguousarray(arrays[name])
        entry: dict[str, Any] = {
            "name": name,
            "datatype": OUTPUT_TYPES[array.dtype],
            "shape": list(array.shape),
        }
        if binary:
            tail.append(array.tobytes())
            entry["parameters"] = {"binary_data_size": len(tail[-1])}
        else:
            entry["data"] = array.reshape(-1).tolist()
        described.append(entry)
    content: dict[str, Any] = {
        "model_name": model,
        "model_version": "1",
        **({} if request.id is None else {"id": request.id}),
        "parameters": {"sequence_id": request.stream, **told(reply, learned=request.learn)},
        "outputs": described,
    }
    head = json.dumps(content, allow_nan=False).encode()
    return (b"".join([head, *tail]), len(head)) if tail else (head, None)


def told(reply: Reply, *, learned: bool) -> dict[str, Any]:
    """Return what every answer says about its batch: enough to compute it again elsewhere."""
    return {
        "batch": reply.facts.batches,
        "batch_size": reply.size,
        "first_row": reply.first,
        "learned": learned,
    }


def _images(
    content: dict[str, Any], raw: memoryview, per_image: tuple[int, int, int], most: int
) -> Array:
    inputs = content.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise bad(f"a request has one input, '{INPUT}', in the list 'inputs'")
    tensor = inputs[0]
    if tensor.get("name") != INPUT:
        raise bad(f"the input is called '{INPUT}', got {shown(tensor.get('name'))}")
    shape = checked_shape(tensor.get("shape"), per_image, most)
    size = _object(tensor, "parameters").get("binary_data_size")
    if size is None:
        if len(raw):
            raise bad(f"{len(raw)} bytes follow the JSON and belong to no tensor")
        return from_json(tensor.get("data"), tensor.get("datatype"), shape)  # type: ignore[arg-type]
    if type(size) is not int or size != len(raw) or "data" in tensor:
        raise bad(
            f"binary_data_size must be the {len(raw)} bytes that follow the JSON, without 'data' "
            f"beside it, got {shown(size)}"
        )
    return from_bytes(raw, tensor.get("datatype"), shape)  # type: ignore[arg-type]


def _outputs(content: dict[str, Any], *, binary: bool) -> tuple[tuple[str, bool], ...]:
    asked = content.get("outputs")
    if asked is None or asked == []:
        return tuple((name, binary) for name in OUTPUTS)
    if not isinstance(asked, list) or len(asked) > len(OUTPUTS):
        raise bad(f"'outputs' must be a list of at most {len(OUTPUTS)} outputs")
    found: dict[str, bool] = {}
    for entry in asked:
        name = entry.get("name") if isinstance(entry, dict) else None
        if name not in OUTPUTS or name in found:
            raise bad(f"outputs are {', '.join(OUTPUTS)}, each once, got {shown(entry)}")
        parameters = _object(entry, "parameters")
        if parameters.get("classification"):
            raise bad("outputs are tensors; POST /predict answers with class names")
        found[name] = _flag(parameters, "binary_data", binary)
    return tuple(found.items())


def _header_length(given: str | None, size: int) -> int:
    if given is None:
        return size
    if not (given.isascii() and given.isdigit() and len(given) < 12 and int(given) <= size):
        raise bad(
            "Inference-Header-Content-Length must be the length of the JSON, at most the "
            f"{size} bytes of the body, got {shown(given)}"
        )
    return int(given)


def _object(content: dict[str, Any], name: str) -> dict[str, Any]:
    found = content.get(name, {})
    if not isinstance(found, dict):
        raise bad(f"'{name}' must be a JSON object, got {shown(found)}")
    return found


def _flag(parameters: dict[str, Any], name: str, default: bool = False) -> bool:
    found = parameters.get(name, default)
    if not isinstance(found, bool):
        raise bad(f"the parameter {name} must be true or false, got {shown(found)}")
    return found


def _refuse(word: str) -> object:
    raise ValueError(f"it holds {word}")
