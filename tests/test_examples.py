"""Examples in docstrings give what they say."""

import doctest
import importlib

import pytest

from lib.paths import ROOT

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "lib").rglob("*.py")
    if ">>> " in path.read_text("utf-8")
}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_examples_give_what_they_say(name):
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.attempted and not found.failed
