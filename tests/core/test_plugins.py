"""What installed packages add to the tables, whole or broken, and what stays as it was."""

import subprocess
import sys

import pytest

from multipool.core import Table, lookup


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return what puts a package with entry points of one group onto the path."""

    def put(package, group, names, code=""):
        folder = tmp_path / package
        information = folder / f"{package}-1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\n")
        lines = [f"{name} = {target}" for name, target in names.items()]
        (information / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))
        (folder / f"{package}_code.py").write_text(code)
        monkeypatch.syspath_prepend(str(folder))

    return put


def table(own=None):
    def accept(name, found):
        if not isinstance(found, int):
            raise ValueError(f"a number is wanted, got {type(found).__name__}")
        return found

    return Table("number", "toy.numbers", own or {"one": 1}, accept)


def test_a_package_adds_names_and_is_imported_when_one_is_looked_up(install):
    install("more", "toy.numbers", {"two": "more_code:TWO"}, "TWO = 2")
    numbers = table()
    assert list(numbers) == ["one", "two"]
    assert "two" in numbers
    assert "more_code" not in sys.modules
    assert numbers["two"] == 2
    assert dict(numbers.items()) == {"one": 1, "two": 2}
    assert (numbers.origin("two"), numbers.origin("one")) == ("more", None)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import nothing_like_it", "ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("raise RuntimeError('on\\ntwo lines')", "RuntimeError: on two lines"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("TWO = 'two'", "a number is wanted, got str"),
        ("THREE = 3", "AttributeError"),
    ],
)
def test_a_broken_package_is_one_sentence_and_hides_nothing_else(install, code, reason):
    package = f"broken{abs(hash(code)) % 10**6}"
    install(package, "toy.numbers", {"two": f"{package}_code:TWO"}, code)
    numbers = table()
    with pytest.raises(ValueError, match=f"number 'two' of package '{package}' cannot be used: "):
        lookup(numbers, "two", "number")
    with pytest.raises(ValueError, match=reason):
        numbers["two"]
    assert list(numbers.values()) == [1]
    assert numbers.get("two") is None
    assert numbers["one"] == 1


def test_a_name_that_is_taken_stays_whose_it_was(install):
    install("taker", "toy.numbers", {"one": "taker_code:ONE"}, "ONE = 11")
    numbers = table()
    with pytest.warns(UserWarning, match="package 'taker' adds a number 'one', which multipool"):
        assert list(numbers) == ["one"]
    assert numbers["one"] == 1


def test_two_packages_of_one_name_are_refused(install):
    install("first", "toy.numbers", {"two": "first_code:TWO"}, "TWO = 2")
    install("second", "toy.numbers", {"two": "second_code:TWO"}, "TWO = 22")
    with pytest.raises(ValueError, match="packages first and second both add a number 'two'"):
        table()["two"]


def test_an_unknown_name_lists_what_packages_add(install):
    install("lister", "toy.numbers", {"three": "lister_code:THREE"}, "THREE = 3")
    with pytest.raises(ValueError, match=r"did you mean 'three'\? Choose one of: one, three"):
        lookup(table(), "tree", "number")


def test_an_entry_can_be_put_in_and_taken_out():
    numbers = table()
    numbers["five"] = 5
    assert (len(numbers), numbers["five"]) == (2, 5)
    del numbers["five"]
    assert len(numbers) == 1


def test_neither_the_import_nor_the_help_breaks_with_a_broken_package(tmp_path):
    information = tmp_path / "bad-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\n")
    groups = ("methods", "memories", "datasets", "models")
    text = "\n".join(f"[multipool.{group}]\nbad = nowhere:Nothing" for group in groups)
    (information / "entry_points.txt").write_text(text)
    path = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    run = path + "import multipool; multipool.adapt; from multipool.cli.main import main; "
    for words in (["--help"], ["run", "--help"], ["data", "list"]):
        done = subprocess.run(
            [sys.executable, "-c", f"{run}main({words})"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    code = f"{run}main(['run', '--method', 'bad'])"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert failed.returncode == 2
    assert failed.stderr == (
        "error: method 'bad' of package 'bad' cannot be used: ModuleNotFoundError: "
        "No module named 'nowhere'; repair or uninstall the package\n"
    )
