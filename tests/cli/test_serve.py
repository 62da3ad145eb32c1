"""The command refuses in one sentence what it cannot serve."""

import pytest


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--host", "0.0.0.0"], ["needs --token-file"]),
        (["--token-file", "no-such-file"], ["no file at no-such-file"]),
        (["--method", "nope"], ["unknown method 'nope'", "multipool"]),
        (["--max-batch", "0"], ["--max-batch must be a number above 0"]),
        (["--weights", "nope.safetensors"], ["nope.safetensors"]),
        (["--set", "nope=1"], ["nope"]),
        (["--method", "petta"], ["needs source data"]),
        (["--image-size", "x"], ["--image-size must be a whole number, got 'x'"]),
        (["--port", "99999"], ["--port must be 0 to 65535, got 99999"]),
        (["--max-body-mib", "0"], ["--max-body-mib must be at least 1, got 0"]),
        (["--max-rate", "-1"], ["--max-rate must be a number of at least 0, got -1"]),
        (["--classes", "no-such-file"], ["no readable list of classes at no-such-file"]),
    ],
)
def test_what_cannot_be_served_is_said_in_a_sentence(call, tmp_path, args, words):
    code, _, err = call("serve", "--state-dir", tmp_path / "state", *args)
    assert code == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert all(word in err for word in words), err


def test_a_folder_that_cannot_be_made_is_named_without_a_number(call, monkeypatch):
    def fails(*args, **named):
        raise FileNotFoundError(2, "No such file or directory", "streams")

    monkeypatch.setattr("multipool.cli.serve.local_service", fails)
    code, _, err = call("serve")
    assert (code, err) == (2, "error: No such file or directory: streams\n")
