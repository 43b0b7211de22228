"""`dvc repro` with a line for each stage that runs: which one of how many, and the question that its notebook asks.

DVC does everything; this reads along. What notebooks tell while they run (progress, warnings) is shown as it comes.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ruamel.yaml import YAML

from lib.paths import ROOT
from lib.run.notebooks import read_cells

_RUNNING = re.compile(r"Running stage '(.+)':")
_SKIPPED = re.compile(r"(?:Verifying data sources in s|S)tage '(.+)' (didn't change|is cached)")
_NOTEBOOK = re.compile(r"^> .*?(notebooks/\S+\.ipynb)")
# What DVC says after each stage, and advice about its own commands.
_CHATTER = re.compile(
    r"\s*$|> |Updating lock file|Generating lock file|To track the changes|\s*git add |To enable auto staging"
    r"|\s*dvc config|Use `dvc push`|Data and pipelines are up to date"
    r"|WARNING: 'data/(figures|tables)/\S+' is empty"  # of a notebook that makes none
)
_EVERY_TIME = "code"


def tell(lines: Iterable[str], total: int) -> Iterator[str]:
    """Yield what to show of the `lines` that DVC prints about `total` stages."""
    count, ran, name = 0, False, ""
    begin = time.monotonic()
    for line in lines:
        if found := _RUNNING.match(line):
            count, name = count + 1, found[1]
        elif found := _SKIPPED.match(line):
            count += 1
            if found[2] == "is cached":
                ran = True
                yield f"stage {count} of {total}, {found[1]}: taken from the cache"
        elif line.startswith("> ") and name == _EVERY_TIME:
            continue
        elif line.startswith("> "):
            ran = True
            minutes, seconds = divmod(int(time.monotonic() - begin), 60)
            yield f"stage {count} of {total} at {minutes}:{seconds:02d}, {name}: {_question(line)}"
        elif not _CHATTER.match(line):
            ran = ran or line.startswith("ERROR")
            yield line.rstrip()
    if count and not ran:
        yield f"nothing to do: {count} of {total} stages looked at, all up to date"


def _question(command: str) -> str:
    """Return the question that the notebook of a stage asks, or the command where it runs none."""
    if notebook := _NOTEBOOK.match(command):
        title = read_cells(ROOT / notebook[1])[0].source.partition("\n")[0]
        return title.removeprefix("#").strip()
    return command[2:].strip()


def count_stages(path: Path = ROOT / "dvc.yaml") -> int:
    """Return how many stages `dvc.yaml` describes, those of a ``foreach`` counted one by one."""
    stages = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))["stages"]
    return sum(len(stage.get("foreach", [stage])) for stage in stages.values())


def main(arguments: list[str]) -> int:
    """Run `dvc repro` with these arguments and return its exit status."""
    command = [sys.executable, "-m", "dvc", "repro", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as dvc:
        try:
            for line in tell(dvc.stdout or (), count_stages()):
                print(line, flush=True)
        except KeyboardInterrupt:  # DVC has it too, from the terminal
            dvc.wait()
    return dvc.returncode
