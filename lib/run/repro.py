"""`dvc repro` with a line for each stage that runs: which one of how many, the question that its notebook asks, and the time left.

DVC does everything; this reads along, and remembers how long each stage took the last time. What notebooks tell while they run
(progress, warnings) is shown as it comes. DVC runs one stage after the other, and leaves it to its caller to start it several
times at once: analyses, which do not need each other, are done by as many as there are cores.
"""

import ast
import contextlib
import fcntl
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from ruamel.yaml import YAML

from lib.paths import DATA, ROOT
from lib.run import code, warm
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
_BESIDE = ("analyse", "show")
"""How the names of stages begin that do not need each other."""
_FIRST = ("check", "train", "simulate")
"""What these need, and what refuses wrong settings before; while they are stale, DVC cannot say which of these will be."""
_SHARES = 6
"""Into how many parts of these each core's are divided: so few that starting DVC costs little, so many that all end together."""


@dataclass
class Told:
    """What was told of a pipeline's `stages` so far, by one DVC or several.

    `seconds` says how long stages took the last time, from which the time left follows; it is brought up to date.
    """

    stages: Sequence[str]
    seconds: MutableMapping[str, float]
    seen: dict[str, None] = field(default_factory=dict)
    ran: bool = False
    begin: float = field(default_factory=time.monotonic)

    def tell(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield what to show of the `lines` that one DVC prints."""
        stage, started = "", None

        def ended() -> None:
            if started is not None:
                self.seconds[stage] = round(time.monotonic() - started, 1)

        for line in lines:
            if found := _RUNNING.match(line) or _SKIPPED.match(line):
                ended()
                stage = found[1]
                self.seen[stage] = None
                started = time.monotonic() if found.re is _RUNNING else None
                if started is None and found[2] == "is cached":
                    self.ran = True
                    yield f"{self._place(stage)}, {stage}: taken from the cache"
            elif line.startswith("> ") and stage != _EVERY_TIME:
                self.ran = True
                at = _clock(time.monotonic() - self.begin)
                yield f"{self._place(stage)} at {at}{self._left(stage)}, {stage}: {_question(line, stage)}"
            elif not _CHATTER.match(line):
                self.ran = self.ran or line.startswith("ERROR")
                yield line.rstrip()
        ended()

    def _place(self, stage: str) -> str:
        return f"stage {[*self.seen].index(stage) + 1} of {len(self.stages)}"

    def _left(self, stage: str) -> str:
        """Return how long `stage` and those after it took here, in words; nothing unless all of them have been timed here."""
        left = {stage, *self.stages} - (self.seen.keys() - {stage})
        if not left <= self.seconds.keys():
            return ""
        # Some will be found up to date, and take no time.
        return f" (at most about {_clock(sum(self.seconds[name] for name in left))} left)"


def _clock(seconds: float) -> str:
    return "{}:{:02d}".format(*divmod(int(seconds), 60))


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
    told = Told(list(stages()), _remembered())
    with _alone() as lock, warm.serving():
        dvc = _Dvc(told, lock)
        try:
            status = dvc.follow(*arguments) if arguments else dvc.everything()
        except KeyboardInterrupt:  # DVC has it too, from the terminal
            status = 130
            print("interrupted; every finished stage and training is kept", file=sys.stderr)
    SECONDS.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dict(sorted(told.seconds.items())), indent=1) + "\n"
    write_whole(SECONDS, lambda partial: partial.write_text(text, encoding="utf-8"))
    return status


class _Dvc:
    """What starts DVC, which holds the `lock` as well, and tells what it does."""

    def __init__(self, told: Told, lock: int) -> None:
        self._told, self._lock = told, lock

    def everything(self) -> int:
        """Bring all stages up to date, analyses several at once; return the exit status."""
        if status := code.main():
            return status
        stale, known = self._stale()
        if known and not stale - {_EVERY_TIME}:
            count = len(self._told.stages)
            print(f"nothing to do: {count} stages looked at, all up to date")
            return 0
        status = 0
        beside = [name for name in self._told.stages if name.startswith(_BESIDE)]
        first = [name for name in _FIRST if name in self._told.stages]
        if known and stale.isdisjoint(first):
            beside = [name for name in beside if name in stale]
        elif first:
            status = self.follow(*first)
        cores = len(os.sched_getaffinity(0))
        if not status and cores > 1 and len(beside) > 1:
            status = self._at_once(beside, cores)
        return status or self.follow()

    def _at_once(self, names: Sequence[str], cores: int) -> int:
        """Bring stages up to date that do not need each other; return the first exit status that is not 0."""
        # Longest first (as in dvc.yaml where that is not known), and dealt out in turns: every part takes about as long.
        names = sorted(names, key=lambda name: -self._told.seconds.get(name, 0))
        parts = [names[number :: cores * _SHARES] for number in range(cores * _SHARES)]
        failed: list[int] = []

        def bring(part: Sequence[str]) -> None:
            if part and not failed and (status := self.follow("--single-item", *part)):
                failed.append(status)

        with ThreadPoolExecutor(cores) as pool:
            try:
                list(pool.map(bring, parts))
            except KeyboardInterrupt:
                failed.append(130)  # those that run end by themselves, no other begins
                raise
        return failed[0] if failed else 0

    def _stale(self) -> tuple[set[str], bool]:
        """Return which stages DVC would run, and whether these are all: it ends at one that lacks what another is to make."""
        with self._started("--dry") as dvc:
            stale = {found[1] for line in dvc.stdout or () if (found := _RUNNING.match(line))}
        return stale, dvc.returncode == 0

    def follow(self, *arguments: str) -> int:
        """Run `dvc repro` with these arguments, tell what it does, and return its exit status."""
        with self._started(*arguments) as dvc:
            try:
                for line in self._told.tell(dvc.stdout or ()):
                    print(line, flush=True)
            except KeyboardInterrupt:
                dvc.communicate()
                raise
        return dvc.returncode

    def _started(self, *arguments: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "dvc", "--wait-for-lock", "repro", *arguments]
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, cwd=ROOT, pass_fds=[self._lock], **piped)


def _remembered() -> dict[str, float]:
    """Return what earlier runs wrote down; a damaged file costs no more than the estimate."""
    try:
        found = json.loads(SECONDS.read_text(encoding="utf-8"))
        return {str(name): float(value) for name, value in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
