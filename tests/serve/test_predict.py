"""Pictures in, class names out."""

import io

import pytest
import torch
from PIL import Image

import multipool


@pytest.fixture
def picture(make_images):
    """Return a function that gives a PNG file and its pixels."""

    def make(seed=0):
        pixels = (make_images(1, seed=seed)[0] * 255).round().to(torch.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(file, "PNG")
        return file.getvalue(), pixels

    return make


def test_a_picture_is_answered_with_names_and_probabilities(serving, picture, tiny_net):
    async def work(service, client):
        file, pixels = picture()
        found = await client.post("/predict?stream=north&top=5", content=file)
        assert found.status_code == 200
        content = found.json()
        chances = multipool.adapt(tiny_net)(pixels[None]).softmax(dim=1)[0]
        classes = content["predictions"][0]["classes"]
        assert [c["probability"] for c in classes] == chances.sort(descending=True).values.tolist()
        assert [c["class"] for c in classes] == ["abcde"[c["index"]] for c in classes]
        assert (content["stream"], content["batch"], content["learned"]) == ("north", 1, True)

    serving(work)


def test_files_of_a_form_are_one_batch(serving, picture, tiny_net):
    async def work(service, client):
        made = [picture(seed) for seed in range(3)]
        files = [("image", (f"{i}.png", file)) for i, (file, _) in enumerate(made)]
        content = (await client.post("/predict?top=1", files=files)).json()
        expected = multipool.adapt(tiny_net)(torch.stack([p for _, p in made])).argmax(dim=1)
        found = [p["classes"][0]["index"] for p in content["predictions"]]
        assert found == expected.tolist()
        assert [p["file"] for p in content["predictions"]] == ["0.png", "1.png", "2.png"]
        assert (content["stream"], content["batch_size"]) == ("default", 3)

    serving(work)


def test_only_predicting_learns_nothing(serving, picture):
    async def work(service, client):
        first = await client.post("/predict?predict_only=true", content=picture()[0])
        again = await client.post("/predict?predict_only=true", content=picture()[0])
        assert first.json() == again.json()
        assert first.json()["batch"] == 0

    serving(work)


@pytest.mark.parametrize(
    ("url", "arguments", "said"),
    [
        ("/predict", {"content": b""}, "got nothing"),
        ("/predict", {"content": b"no picture"}, "no readable JPEG or PNG"),
        ("/predict?top=0", {"content": b"x"}, "top must be a whole number"),
        ("/predict?predict_only=maybe", {"content": b"x"}, "true or false"),
        ("/predict?stream=../x", {"content": b"x"}, "a stream's name is"),
        ("/predict?camera=1", {"content": b"x"}, "/predict takes stream"),
        ("/predict", {"data": {"a": "b"}, "files": {}}, "no readable JPEG"),
        ("/predict", {"files": {"image": ("a.png", b"no")}}, "no readable JPEG or PNG"),
        (
            "/predict",
            {"content": b"x", "headers": {"Content-Type": "multipart/form-data"}},
            "form cannot be read",
        ),
        (
            "/predict",
            {"files": [("i", (f"{i}.png", b"x")) for i in range(65)]},
            "form cannot be read",
        ),
    ],
)
def test_what_is_no_picture_is_refused(serving, url, arguments, said):
    async def work(service, client):
        found = await client.post(url, **arguments)
        assert found.status_code == 400
        assert said in found.json()["error"]
        assert not service.entries

    serving(work)
