"""The process as operators run it: signals, tokens, silent connections."""

import asyncio
import io
import os
import signal
import socket
import time

import pytest
import uvicorn
from PIL import Image

from multipool.bench.speed.camera import Camera, Scenes
from multipool.serve.card import ModelCard
from multipool.serve.server import Listening, read_token
from multipool.serve.timed import timed

from .process import Process


def picture_request() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(file, "JPEG")
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {file.tell()}\r\n\r\n"
    return head.encode() + file.getvalue()


def test_the_command_serves_until_sigterm_and_then_saves_and_exits_with_0(tmp_path):
    scenes, process = Scenes(20), Process(tmp_path / "state", "--save-every", "3600", fresh=True)
    process.start()
    said = process.log.read_text()
    assert f"curl --data-binary @picture.png 'http://localhost:{process.port}/predict" in said
    status, _, answer = asyncio.run(Camera(process.port, "").send(picture_request()))
    assert status == 200
    assert b"shapes-wrn10-1" in answer

    async def drive():
        cameras = [Camera(process.port, f"s{n}") for n in range(3)]
        await asyncio.gather(*(c.ask(scenes.request(0, 0, 1)) for c in cameras))
        asked = [asyncio.create_task(c.ask(scenes.request(0, 1, 1))) for c in cameras]
        await asyncio.sleep(0.005)
        os.kill(process.pid, signal.SIGTERM)
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = asyncio.run(drive())
    assert process.wait() == 0
    process.fresh = False
    answered = sum(isinstance(answer, tuple) for answer in answers)
    process.start()

    async def go_on():
        cameras = [Camera(process.port, f"s{n}") for n in range(3)]
        told = [(await c.ask(scenes.request(0, 2, 1)))[1] for c in cameras]
        return sum(t["batch"] for t in told)

    assert asyncio.run(go_on()) >= 6 + answered  # nothing that was answered is forgotten
    assert process.stop() == 0


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n", b"\x00" * 10])
def test_a_connection_that_says_too_little_is_closed(said):
    async def app(scope, receive, send):
        raise AssertionError("no request was complete")

    async def drive():
        config = uvicorn.Config(app, http=timed(0.2), lifespan="off", ws="none", log_config=None)
        server = uvicorn.Server(config)
        ours = socket.socket()
        ours.bind(("127.0.0.1", 0))
        serving = asyncio.create_task(server.serve([ours]))
        while not server.started:
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_connection(*ours.getsockname())
        began = time.monotonic()
        writer.write(said)
        await asyncio.wait_for(reader.read(), 10)  # until it is closed
        server.should_exit = True
        await serving
        return time.monotonic() - began

    assert asyncio.run(drive()) < 5


def test_a_connection_kept_alive_is_not_closed_between_requests(live):
    served = live()

    async def drive():
        camera = Camera(served.port, "a")
        for _ in range(2):
            request = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
            assert (await camera.send(request))[0] == 200
            await asyncio.sleep(0.05)
        camera.close()

    asyncio.run(drive())


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_a_token_is_one_long_word_in_a_private_file(tmp_path):
    path = tmp_path / "token"
    with pytest.raises(FileNotFoundError, match="no file at"):
        read_token(path)
    path.write_text("0123456789abcdef\n")
    path.chmod(0o644)
    with pytest.raises(ValueError, match="can be read by others"):
        read_token(path)
    path.chmod(0o600)
    assert read_token(path) == b"0123456789abcdef"
    for wrong in ("short", "two words of length", "ümlaut-0123456789"):
        path.write_text(wrong)
        with pytest.raises(ValueError, match="one word of 16 characters"):
            read_token(path)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.org"])
def test_other_machines_need_a_token(host, tmp_path):
    with pytest.raises(ValueError, match="needs --token-file"):
        Listening(host=host).access()
    path = tmp_path / "token"
    path.write_text("0123456789abcdef")
    path.chmod(0o600)
    assert Listening(host=host, token_file=path).access().token == b"0123456789abcdef"


def test_a_card_knows_its_model_and_version():
    card = ModelCard("m", (3, 8, 8), ("a", "b"))
    card.check("m")
    card.check("m", "1")
    for name, version in (("n", None), ("m", "2")):
        with pytest.raises(Exception, match="this service has the model 'm', version 1"):
            card.check(name, version)


def test_a_port_that_is_taken_is_a_sentence_and_none_is_any():
    with Listening(port=0).bind() as first:
        taken = first.getsockname()[1]
        first.listen()
        with pytest.raises(
            ValueError, match=f"cannot listen on port {taken} of 127.0.0.1: .* in use"
        ):
            Listening(port=taken).bind()
    with Listening(port=taken).bind() as again:  # which is free now
        assert again.getsockname() == ("127.0.0.1", taken)


def test_an_address_of_another_machine_is_a_sentence():
    with pytest.raises(ValueError, match="cannot listen on port 0 of 203.0.113.1"):
        Listening(host="203.0.113.1", port=0).bind()
