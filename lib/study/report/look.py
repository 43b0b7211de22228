"""Show the stored results without training: their analyses and a report of them alone, in ``data/look`` (`python -m study.report.look`).

Every stage of `dvc.yaml` that analyses a stored reference is run for that alone, several at a time; DVC says which these are. Of two
stored runs of one experiment the weightier is shown, which the stage calls `SHOWN`; `make repro` shows both.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from dvc.exceptions import DvcException

from study.paths import REFERENCE, ROOT
from study.pipeline import warm
from study.pipeline.execute import Run, execute_all, parse, planned

LOOK = Path("data/look")
SHOWN = "reference"
KEPT = f"-s {SHOWN} {REFERENCE.relative_to(ROOT).as_posix()}"


def stored() -> Iterator[Run]:
    """Yield the analyses of stored references."""
    from dvc.repo import Repo  # late: while this is imported, the kernels' packages are as well

    with Repo(ROOT) as repo:
        commands = [stage.cmd for stage in repo.index.stages]
    for command in commands:
        if KEPT in command:
            options = parse(shlex.split(command)[3:])  # python -m study.pipeline
            options.sets = [pair for pair in options.sets if pair[0] == SHOWN]
            options.parameters = [*(dict(options.parameters) | {"out": str(LOOK)}).items()]
            options.output = LOOK / options.output.relative_to("data")
            yield from planned(options).values()


def main() -> int:
    """Run the notebooks and build the report of them; return the exit status."""
    os.chdir(ROOT)
    coverage = ["notebooks/90_coverage.ipynb", str(LOOK / "executed/90_coverage.ipynb")]
    coverage += ["-p", "data_dir", str(LOOK), "-p", "out", str(LOOK / "coverage.csv")]
    with warm.serving():
        try:
            runs, counted = list(stored()), count(1)
        except DvcException as error:  # of which a folder without Git is one
            print(f"look: {error}; clone the repository anew", file=sys.stderr)
            return 1
        shutil.rmtree(LOOK / "made", ignore_errors=True)  # of notebooks that may be gone

        def tell(run: Run) -> None:
            print(f"{next(counted)} of {len(runs)} notebooks: {run.output.stem}", flush=True)

        return (
            # One more than there are cores: each waits for its kernel now and then.
            execute_all(runs, at_once=len(os.sched_getaffinity(0)) + 1, quiet=True, after=tell)
            or execute_all([*planned(parse(coverage)).values()], at_once=1, quiet=True)
            or warm.run(["study.report", "--data", str(LOOK), "--out", str(LOOK / "report")])
        )


if __name__ == "__main__":
    sys.exit(f"study.report.look takes no words, got {sys.argv[1:]}" if sys.argv[1:] else main())
