"""Names of streams never leave the folder and never share a file."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multipool.serve.names import file_name, name_of_file, stream_name
from multipool.serve.refusal import Refusal

NAMES = st.from_regex(r"\A[A-Za-z0-9._:-]{1,64}\Z")


@given(NAMES)
def test_every_name_has_a_plain_file_in_the_folder_and_comes_back(name):
    file = file_name(stream_name(name))
    assert PurePosixPath(file).name == file
    assert not file.startswith(".")
    assert len(file) + 24 <= 255  # with what an atomic write adds
    assert name_of_file(file) == name


@given(NAMES, NAMES)
def test_two_names_never_share_a_file_even_without_capitals(one, other):
    assert (file_name(one).lower() == file_name(other).lower()) == (one == other)


@pytest.mark.parametrize(
    "given_name",
    [
        "../../etc/passwd",
        "a/b",
        "a\\b",
        "a" * 65,
        "a b",
        "\0",
        "é",
        "a\n",
        True,
        -1,
        2**64,
        1.5,
        [],
    ],
)
def test_what_is_no_name_is_refused_in_a_sentence(given_name):
    with pytest.raises(Refusal, match="a stream's name is 1 to 64") as refusal:
        stream_name(given_name)
    assert refusal.value.status == 400


@pytest.mark.parametrize("file", ["notes.txt", ".x.safetensors", "A.safetensors", "%2e.x"])
def test_files_of_others_are_no_streams(file):
    assert name_of_file(file) is None
