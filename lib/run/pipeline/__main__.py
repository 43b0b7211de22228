"""Refresh `dvc.yaml`, and with ``--prune`` remove outputs of analyses that are gone."""

import argparse
import sys

from lib.paths import ROOT
from lib.run.notebooks import NotebookError
from lib.run.params import ParameterError, load_params
from lib.run.pipeline.stages import prune, render


def main(arguments: list[str] | None = None) -> int:
    """Check `params.yaml`, refresh `dvc.yaml`, and say what changed."""
    parser = argparse.ArgumentParser(prog="python -m lib.run.pipeline", description=main.__doc__)
    parser.add_argument(
        "--prune", action="store_true", help="remove outputs of analyses that are gone"
    )
    options = parser.parse_args(arguments)
    path = ROOT / "dvc.yaml"
    before = path.read_text(encoding="utf-8")
    try:
        load_params()  # a misspelled parameter is told here, before DVC or a notebook meets it
        after = render(before)
    except (NotebookError, ParameterError) as error:
        print(f"lib.run.pipeline: {error}", file=sys.stderr)
        return 2
    if after != before:
        partial = path.with_suffix(".yaml.partial")
        partial.write_text(after, encoding="utf-8")
        partial.replace(path)
        print("lib.run.pipeline: dvc.yaml now follows the notebooks and their imports")
    for name in prune() if options.prune else []:
        print(f"lib.run.pipeline: removed {name}, which no stage makes any more")
    return 0


if __name__ == "__main__":
    sys.exit(main())
