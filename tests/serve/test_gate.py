"""Who gets in."""

import asyncio

import pytest

from multipool.serve.gate import Access

TOKEN = b"0123456789abcdef"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST:1", ""])
def test_without_a_token_this_machine_gets_in(host):
    assert Access().problem("/predict", {b"host": host.encode()}) is None


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:80", "10.0.0.1"])
def test_without_a_token_another_name_is_refused(host):
    status, _ = Access().problem("/predict", {b"host": host.encode()})
    assert status == 403


@pytest.mark.parametrize("access", [Access(), Access(TOKEN)])
def test_a_page_of_another_site_is_refused(access):
    headers = {
        b"host": b"localhost:8080",
        b"origin": b"http://evil.example",
        b"authorization": b"Bearer " + TOKEN,
    }
    assert access.problem("/predict", headers)[0] == 403
    headers[b"origin"] = b"http://localhost:8080"
    assert access.problem("/predict", headers) is None


@pytest.mark.parametrize(
    "given", [b"", b"Bearer", b"Bearer ", TOKEN, b"bearer " + TOKEN, b"Bearer " + TOKEN + b"0"]
)
def test_with_a_token_every_other_word_is_refused(given):
    headers = {b"host": b"evil.example", b"authorization": given}
    assert Access(TOKEN).problem("/predict", headers)[0] == 401
    assert Access(TOKEN).problem("/v2/health/live", headers) is None
    headers[b"authorization"] = b"Bearer " + TOKEN
    assert Access(TOKEN).problem("/predict", headers) is None


def test_the_token_is_asked_for_on_every_route_but_health_and_the_page(serving):
    async def work(service, client):
        routes = {r.path for r in client._transport.app.routes if hasattr(r, "path")}
        routes |= {"/v2/models/tiny/infer", "/nothing", "/api/streams/x"}
        for path in sorted(routes):
            found = await client.request("GET", path)
            free = path == "/" or path.startswith("/v2/health")
            assert (found.status_code == 401) == (not free), path
            if found.status_code == 401:
                assert found.headers["www-authenticate"] == "Bearer"
                assert "Authorization" in found.json()["error"]
        good = {"Authorization": f"Bearer {TOKEN.decode()}"}
        assert (await client.get("/v2", headers=good)).status_code == 200

    serving(work, access=Access(TOKEN))


def test_too_many_requests_at_once_are_refused_with_a_time(serving):
    from multipool.serve.settings import Limits

    async def work(service, client):
        release = asyncio.Event()

        async def slow():
            yield b"{"
            await release.wait()

        first = asyncio.create_task(client.post("/v2/models/tiny/infer", content=slow()))
        await asyncio.sleep(0.05)
        found = await client.get("/v2")
        assert found.status_code == 503
        assert found.headers["retry-after"] == "1"
        release.set()
        assert (await first).status_code == 400

    serving(work, limits=Limits(max_requests=1))
