"""Damaged files of every kind: a sentence or a sound answer, and nothing else happens.

Counts go to standard output: ``pytest tests/fuzz -m slow -s`` shows them.
"""

import gc
from collections import Counter

import pytest
from archive_readers import ARCHIVE_READERS
from array_readers import ARRAY_READERS
from list_readers import LIST_READERS
from mutations import mutants
from reader import same
from tensor_readers import TENSOR_READERS
from text_readers import TEXT_READERS
from watching import outcome, sentence

pytestmark = pytest.mark.filterwarnings("ignore")  # of Pillow, numpy and torch: they complain, too
READERS = {
    **TENSOR_READERS,
    **ARRAY_READERS,
    **LIST_READERS,
    **TEXT_READERS,
    **ARCHIVE_READERS,
}
FEW, MANY = 50, 2000


def put_to_the_test(name: str, folder, count: int, seed: int) -> Counter[str]:
    """Read ``count`` damaged copies of a good file; return how they ended."""
    reader, found = READERS[name], Counter()
    path = reader.make(folder)
    data = path.read_bytes()
    reader.read(path)  # what is loaded or made once is not looked at
    good, error = outcome(lambda: reader.read(path), folder)
    assert error is None, f"{name}: the undamaged file is refused: {error}"
    specials = [*reader.specials(data)]
    if count < len(specials):  # a few of each kind
        specials = specials[:: -(-len(specials) * 2 // count)]
    troubles = []
    for story, content in mutants(data, iter(specials), count, seed):
        path.write_bytes(content)
        try:
            value, error = outcome(lambda: reader.read(path), folder)
            found[judge(reader, reader.named or path.name, good, value, error)] += 1
        except AssertionError as trouble:
            troubles.append(f"{story} ({content[:60]!r}...): {str(trouble)[:400]}")
    assert not troubles, f"{name}: {len(troubles)} of {count}\n" + "\n".join(troubles[:20])
    return found


def judge(reader, named, good, value, error) -> str:
    """Return how a reading ended, if it may end like that."""
    if error is not None:
        trouble = sentence(error, named)
        assert not trouble, trouble
        return "refused in a sentence"
    if same(value, good):
        return "the right answer"
    assert reader.check is not None, "an altered file with a checksum was read"
    reader.check(value)
    return "sound, of other content"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MULTIPOOL_CACHE", str(tmp_path / "cache"))
    gc.collect()


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_refused_in_a_sentence_or_read_rightly(name, tmp_path):
    found = put_to_the_test(name, tmp_path, FEW, seed=1)
    assert found.total() == FEW


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_two_thousand_damaged_files_of_every_reader(name, tmp_path, capsys):
    found = put_to_the_test(name, tmp_path, MANY, seed=2)
    assert found.total() == MANY
    with capsys.disabled():
        print(
            f"\n{name}: {MANY} files, " + ", ".join(f"{n} {how}" for how, n in found.most_common())
        )
