"""Refuse to run for a clone with the package of another one."""

from pathlib import Path

from study.paths import ROOT

_MARK = Path("lib", "study", "pipeline", "__main__.py")
"""A file that every clone has."""


class WrongCloneError(RuntimeError):
    """The current folder belongs to another clone than this package."""


def check_clone(folder: Path) -> None:
    """Refuse a folder of another clone than the one that this package belongs to.

    An environment has the package of one clone. In another clone, or in the copy of the repository
    in which ``dvc exp run --temp`` works, it would read and overwrite the files of the first one.

    Parameters
    ----------
    folder
        The current folder; any folder outside of clones is accepted.

    Raises
    ------
    WrongCloneError
        The message says what to do.
    """
    for clone in (folder, *folder.parents):
        if (clone / _MARK).is_file():
            if not clone.samefile(ROOT):
                raise WrongCloneError(
                    f"this folder belongs to {clone}, but Python finds the package study of "
                    f"{ROOT}, whose files would change; run this command, or the DVC command that "
                    "starts it, with PYTHONPATH=lib in the root of its clone"
                )
            return
