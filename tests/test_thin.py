"""What stands in `lib` is reached by a training, an engine, a command or two notebooks, or is an estimator that an oracle checks."""

import ast
import re
from collections import defaultdict

from lib.paths import NOTEBOOKS, ROOT
from lib.run.notebooks import read_cells

TRAINED = ("lib.cells.", "lib.kernels.", "lib.tasks.", "lib.training.")
"""Rooms whose members are found by name: everything that runs at import counts."""
COMMANDS = ("lib.run", "lib.report", "lib.report.build", "lib.report.conf", "lib.report.look")
COMMANDS += ("lib.results.reference",)
ORACLES = {
    "lib.analysis.comparisons.compare_error_rates": "R",
    "lib.bench.coadjoint": "the memory of a fresh process",
    "lib.bench.parity": "the cells in float64",
}
"""Modules and definitions that one notebook alone calls, and what they are held to."""


class Names:
    """The definitions of a piece of code, and what it names of `lib`."""

    def __init__(self, text):
        self.tree = ast.parse(text)
        kinds = ast.FunctionDef | ast.ClassDef
        self.own = {node.name: node for node in self.tree.body if isinstance(node, kinds)}
        self.imported = {}
        for node in ast.walk(self.tree):
            for alias in getattr(node, "names", ()) if isinstance(node, ast.ImportFrom) else ():
                self.imported[alias.asname or alias.name] = node.module or "", alias.name

    def used_by(self, node):
        """Yield module and definition of every name in `node`; None for a module as a whole."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in self.own:
                yield None, part.id
            elif isinstance(part, ast.Name) and part.id in self.imported:
                yield self.imported[part.id]
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                yield ".".join(self.imported.get(part.value.id, ("", ""))), part.attr


def _modules():
    found = {}
    for file in (ROOT / "lib").rglob("*.py"):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = Names(file.read_text("utf-8"))
    return found


MODULES = _modules()


def _reached(start):
    """Return all definitions that these lead to; what is imported, decorated or a constant of a module comes with it."""
    seen, todo = set(), list(start)
    while todo:
        module, name = found = todo.pop()
        if f"{module}.{name}" in MODULES:
            todo.append((f"{module}.{name}", None))
        elif module in MODULES and found not in seen:
            seen.add(found)
            here, todo = MODULES[module], [*todo, (module, None)]
            nodes = [here.own[name]] if name in here.own else []
            if name is None:
                nodes = [node for node in here.tree.body if node not in here.own.values()]
                todo += [
                    (module, own)
                    for own, node in here.own.items()
                    if node.decorator_list or getattr(node, "keywords", ())
                ]
            elif name in here.imported:
                todo.append(here.imported[name])
            todo += [(of or module, used) for node in nodes for of, used in here.used_by(node)]
    return {(module, name) for module, name in seen if name in MODULES[module].own}


def _definitions(name):
    if name in MODULES:
        return {(name, own) for own in MODULES[name].own}
    return {tuple(name.rsplit(".", 1))}


def test_what_no_training_no_second_notebook_and_no_oracle_needs_is_not_in_lib():
    roots = [(name, None) for name in MODULES if name.startswith(TRAINED)]
    commands = [name for name in MODULES if name.endswith("__main__") or name in COMMANDS]
    roots += [(name, own) for name in commands for own in (None, *MODULES[name].own)]
    notebooks = defaultdict(set)
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        code = "\n".join(cell.source for cell in read_cells(path) if cell.kind == "code")
        text = Names(re.sub(r"(?m)^[%!].*", "", code))
        found = _reached([*text.used_by(text.tree), *text.imported.values()])
        if path.name < "2":  # these prepare, train and simulate
            roots += found
        for definition in found:
            notebooks[definition].add(path.stem)
    reached = _reached(roots)
    reached |= {definition for definition, names in notebooks.items() if len(names) > 1}
    allowed = reached | _reached(set().union(*map(_definitions, ORACLES)))
    everything = {(module, own) for module, names in MODULES.items() for own in names.own}
    assert not [(one, notebooks[one] or "tests alone") for one in sorted(everything - allowed)]
    needless = [name for name in ORACLES if _definitions(name) <= reached]
    assert not needless, f"take these off the list of oracles: {needless}"
