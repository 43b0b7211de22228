"""``python -m lib.run``: run a notebook (`lib.run.execute`), or one of the words ``code`` and ``repro``.

Plain enough for the Python of any system: ``dvc`` may be typed where another one answers.
"""

import os
import sys
from importlib.util import find_spec

_NEEDED = ("papermill", "psutil", "pydantic", "ruamel")


def _main(arguments):
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing or sys.version_info < (3, 11):
        fault = f"lacks {missing[0]}" if missing else "is older than Python 3.11"
        advice = (
            "this project's packages are in the environment .venv: activate it with `. .venv/bin/activate`, "
            "or type `make repro`, which makes it and uses it"
        )
        if sys.prefix.endswith(".venv"):
            advice = "the environment is damaged: remove its folder, and type `make repro`, which makes it anew"
        sys.exit(f"lib.run: {sys.executable} {fault}; {advice}")
    # Imported late: nothing of the project's can be before the check.
    if arguments == ["code"]:
        from lib.run import code

        return code.main()
    if arguments[:1] == ["repro"]:
        from lib.run import repro

        return repro.main(arguments[1:])
    from lib.run import guard, warm

    try:
        guard.start(guard.pipeline_ancestors())
    except ProcessLookupError as error:
        sys.exit(f"lib.run: {error}")
    if warm.SOCKET in os.environ:
        return warm.run(["lib.run.execute", *arguments])
    from lib.run import execute

    return execute.main(arguments)


try:
    sys.exit(_main(sys.argv[1:]))
except KeyboardInterrupt:  # before anything had begun that could be kept
    sys.stderr.write("lib.run: interrupted\n")
    sys.exit(130)
