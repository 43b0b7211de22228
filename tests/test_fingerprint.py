"""The code's fingerprint: prose costs nothing, a formula costs what reaches it, and what cannot be followed is refused."""

import nbformat
import pytest

from lib.run import fingerprint as module
from lib.run.fingerprint import FingerprintError, fingerprint, notebook_reached, reached


@pytest.fixture
def tree(tmp_path):
    """Return a function that writes files of a small `lib` and returns its root."""

    def write(**sources):
        for name, source in {"lib/__init__": "", **sources}.items():
            path = tmp_path / (name if "." in name else f"{name}.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, "utf-8")
        for cached in (module._read, module._resolve):
            cached.cache_clear()
        return tmp_path

    return write


def _one(tree, source):
    return fingerprint(["lib.a"], root=tree(**{"lib/a": source}))


def test_prose_and_layout_cost_nothing(tree):
    before = '"""Old."""\nrate = 1\n"""What it is."""\n\ndef f(x):\n    return (x, 1)'
    after = (
        '# New\n"""New."""\nrate = 1\n"""Other words."""\n\n\ndef f(\n    x,\n):\n    """Both."""\n'
    )
    assert _one(tree, before) == _one(tree, f"{after}    return x, 1  # both\n")


@pytest.mark.parametrize(
    "source",
    ["x = 1.0", "x = 2", "y = 1", "x = -1", "x = '1'", "x = 1\nx = 1", "x += 1", "f'{x:.1f}'"],
)
def test_every_change_of_meaning_counts(tree, source):
    assert _one(tree, "x = 1") != _one(tree, source)
    assert _one(tree, "f'{x:.2f}'") != _one(tree, source)


def test_a_member_counts_where_it_is_named_and_where_all_count(tree):
    sources = {
        "lib/a": "import lib.cells.gru",
        "lib/cells/__init__": "from lib.registry import import_files\nimport_files(__path__)",
        "lib/cells/gru": "rate = 1",
        "lib/cells/_private": "rate = 1",
        "lib/registry": "",
    }

    def names(**changed):
        root = tree(**{**sources, **changed})
        each = [fingerprint([name], root=root) for name in ("lib.a", "lib.cells")]
        return each, fingerprint(["lib.cells"], whole=True, root=root)

    (a, cells), whole = names()
    assert names(**{"lib/cells/gru": '"""Prose."""\nrate = 1'}) == ([a, cells], whole)
    assert names(**{"lib/cells/_private": "rate = 2"}) == ([a, cells], whole)
    (changed, same), more = names(**{"lib/cells/gru": "rate = 2"})
    assert same == cells and changed != a and more != whole


def test_imports_are_followed_wherever_they_stand(tree):
    sources = {
        "lib/a": "import numpy\nfrom lib.pack import thing",
        "lib/pack/__init__": "def thing():\n    import lib.late\n    from . import near",
        "lib/pack/near": "from lib.pack.deep.below import x as y",
        "lib/pack/deep/__init__": "",
        "lib/pack/deep/below": "command = ['-m', 'lib.named', 'lib.nowhere']",
        **dict.fromkeys(["lib/late", "lib/named"], ""),
    }
    found = reached(["lib.a"], root=tree(**sources, **{"lib/idle": ""}))
    assert set(found) == {f"{name}.py" for name in [*sources, "lib/__init__"]}


def test_files_that_a_module_names_belong_to_it(tree):
    source = "from pathlib import Path\nHERE = Path(__file__).parent\nPAGE = HERE / 'pages/a.html'"
    files = {"lib/a": source, "lib/pages/a.html": "one", "lib/b.txt": "one"}
    of = lambda **files: fingerprint(["lib.a"], root=tree(**files))  # noqa: E731
    assert of(**files) == of(**files | {"lib/b.txt": "two"})
    assert of(**files) != of(**files | {"lib/pages/a.html": "two"})


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("import importlib\nimportlib.import_module(name)", r"a\.py, line 2, imports by a comp"),
        ("from importlib import import_module as load", r"a\.py, line 1, imports by a computed"),
        ("x = __import__", "name the module in an import statement"),
        ("import lib.gone", r"a\.py imports lib\.gone, which is not in lib"),
        ("from lib.gone import x", r"which is not in lib; correct the name"),
        ("def", r"a\.py is no Python \(line 1"),
    ],
)
def test_what_cannot_be_followed_is_refused(tree, source, complaint):
    with pytest.raises(FingerprintError, match=complaint) as caught:
        _one(tree, source)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["lib.cells.lstn", "numpy", ""])
def test_only_modules_of_lib_have_a_fingerprint(name):
    with pytest.raises(FingerprintError, match=f"no module '{name}' in .*; expected a dotted name"):
        fingerprint([name])


def test_a_notebook_depends_on_what_its_cells_reach(tree, tmp_path):
    path = tree(**{"lib/a": "x = 1", "lib/b": ""}) / "20_why.ipynb"

    def of(*sources):
        made = [nbformat.v4.new_code_cell(source) for source in sources]
        nbformat.write(nbformat.v4.new_notebook(cells=made), path)
        return notebook_reached(path, root=tmp_path)

    cells = "%matplotlib inline\nfrom lib.a import x", "x + 1"
    assert of(*cells) == of(*cells, "print(x)") != of(*cells, "import lib.b")
    with pytest.raises(FingerprintError, match=r"20_why.ipynb imports lib\.c, which is not in lib"):
        of("from lib.c import d")
