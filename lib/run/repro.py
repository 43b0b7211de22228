"""`dvc repro` with a line for each stage that runs: which one of how many, the question that its notebook asks, and the time left.

DVC does everything; this reads along, and remembers how long each stage took the last time. What notebooks tell while they run (progress, warnings) is shown as it comes.
"""

import ast
import contextlib
import fcntl
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from pathlib import Path

from ruamel.yaml import YAML

from lib.paths import DATA, ROOT
from lib.run import warm
from lib.run.files import write_whole
from lib.run.notebooks import read_cells

SECONDS = DATA / "cache" / "stage_seconds.json"
"""How long each stage took when it last ran on this machine."""
LOCK = DATA / "cache" / "repro.lock"

_RUNNING = re.compile(r"Running stage '(.+)':")
_SKIPPED = re.compile(r"(?:Verifying data sources in s|S)tage '(.+)' (didn't change|is cached)")
_NOTEBOOK = re.compile(r"^> .*?(notebooks/\S+\.ipynb)")
_PACKAGE = re.compile(r"^> python -m (lib\.\w+)\s*$")
# What DVC says after each stage, and advice about its own commands.
_CHATTER = re.compile(
    r"\s*$|> |Updating lock file|Generating lock file|To track the changes|\s*git add |To enable auto staging"
    r"|\s*dvc config|Use `dvc push`|Data and pipelines are up to date"
)
_EVERY_TIME = "code"
"""The stage that runs at every call: no line tells that it does."""


def tell(
    lines: Iterable[str], stages: Sequence[str], seconds: MutableMapping[str, float]
) -> Iterator[str]:
    """Yield what to show of the `lines` that DVC prints about `stages`.

    `seconds` says how long stages took the last time, from which the time left follows; it is brought up to date.
    """
    seen: list[str] = []
    ran, begin = False, time.monotonic()
    started = None

    def ended() -> None:
        if started is not None:
            seconds[seen[-1]] = round(time.monotonic() - started, 1)

    for line in lines:
        if found := _RUNNING.match(line) or _SKIPPED.match(line):
            ended()
            seen.append(found[1])
            started = time.monotonic() if found.re is _RUNNING else None
            if started is None and found[2] == "is cached":
                ran = True
                yield f"stage {len(seen)} of {len(stages)}, {found[1]}: taken from the cache"
        elif line.startswith("> ") and seen[-1] != _EVERY_TIME:
            ran = True
            at = _clock(time.monotonic() - begin)
            left = _left(set(stages).difference(seen[:-1]), seconds)
            yield f"stage {len(seen)} of {len(stages)} at {at}{left}, {seen[-1]}: {_question(line, seen[-1])}"
        elif not _CHATTER.match(line):
            ran = ran or line.startswith("ERROR")
            yield line.rstrip()
    ended()
    if seen and not ran:
        yield f"nothing to do: {len(seen)} of {len(stages)} stages looked at, all up to date"


def _clock(seconds: float) -> str:
    return "{}:{:02d}".format(*divmod(int(seconds), 60))


def _left(stages: set[str], seconds: MutableMapping[str, float]) -> str:
    """Return how long `stages` took here the last time, in words; nothing unless all of them have been timed here."""
    if not stages <= set(seconds):
        return ""
    # Some will be found up to date, and take no time.
    return f" (at most about {_clock(sum(seconds[name] for name in stages))} left)"


def _question(command: str, stage: str) -> str:
    """Return what a stage asks: the title of its notebook, with what this one of several is about, or what its package is.

    The command itself where it runs neither.
    """
    if notebook := _NOTEBOOK.match(command):
        title = read_cells(ROOT / notebook[1])[0].source.partition("\n")[0].removeprefix("# ")
        one = stage.partition("@")[2]
        several = one not in ("", Path(notebook[1]).stem)
        return f"{title} ({one.replace('_', ' ')})" if several else title
    if package := _PACKAGE.match(command):
        source = ROOT.joinpath(*package[1].split("."), "__init__.py").read_text("utf-8")
        return (ast.get_docstring(ast.parse(source)) or package[1]).partition("\n")[0]
    return command[2:].strip()


def stages() -> dict[str, str]:
    """Return the command of every stage that `dvc.yaml` describes, of each of a ``foreach``, by DVC's name of it."""
    described = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    found = {}
    for name, stage in described.items():
        items = stage.get("foreach", {"": ""})
        items = items if isinstance(items, dict) else dict(zip(items, items, strict=True))
        for key, item in items.items():
            values = {"key": key, "item": item}
            if isinstance(item, dict):
                values |= {f"item.{part}": text for part, text in item.items()}
            command = stage.get("do", stage)["cmd"]
            for part, text in values.items():
                command = command.replace(f"${{{part}}}", str(text))
            found[f"{name}@{key}" if key else name] = command
    return found


@contextlib.contextmanager
def _alone() -> Iterator[int]:
    """Wait, which a sentence says, until no other `make repro` runs here; give the lock, which DVC holds as well."""
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            said = "another `make repro` runs in this folder; this one goes on when it has ended"
            print(said, file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def main(arguments: list[str]) -> int:
    """Run `dvc repro` with these arguments, one at a time in a clone, and return its exit status."""
    command = [sys.executable, "-m", "dvc", "repro", *arguments]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    interrupted = False
    with (
        _alone() as lock,
        warm.serving(),
        subprocess.Popen(command, cwd=ROOT, pass_fds=[lock], **piped) as dvc,
    ):
        seconds = _remembered()
        try:
            for line in tell(dvc.stdout or (), list(stages()), seconds):
                print(line, flush=True)
        except KeyboardInterrupt:  # DVC has it too, from the terminal
            interrupted = True
            dvc.communicate()
            print("interrupted; every finished stage and training is kept", file=sys.stderr)
    SECONDS.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dict(sorted(seconds.items())), indent=1) + "\n"
    write_whole(SECONDS, lambda partial: partial.write_text(text, encoding="utf-8"))
    return 130 if interrupted else dvc.returncode


def _remembered() -> dict[str, float]:
    """Return what earlier runs wrote down; a damaged file costs no more than the estimate."""
    try:
        found = json.loads(SECONDS.read_text(encoding="utf-8"))
        return {str(name): float(value) for name, value in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
