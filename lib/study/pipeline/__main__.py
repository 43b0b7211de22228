"""``python -m study.pipeline``: run a notebook (`study.pipeline.execute`), or one of the words ``code`` and ``repro``.

Plain enough for the Python of any system: ``dvc`` may be typed where another one answers.
"""

import os
import sys


def _main(arguments):
    # Imported late: nothing of the project's can be where a package is missing.
    if arguments == ["code"]:
        from study.pipeline import code

        return code.main()
    if arguments[:1] == ["repro"]:
        from study.pipeline import repro

        return repro.main(arguments[1:])
    from study.pipeline import guard, warm

    try:
        guard.start(guard.pipeline_ancestors())
    except ProcessLookupError as error:
        sys.exit(f"study.pipeline: {error}")
    if warm.SOCKET in os.environ:
        return warm.run(["study.pipeline.execute", *arguments])
    from study.pipeline import execute

    return execute.main(arguments)


try:
    sys.exit(_main(sys.argv[1:]))
except (ImportError, SyntaxError) as error:
    sys.exit(
        f"study.pipeline: {sys.executable} cannot run this ({error}); the packages are in the environment .venv: activate it with "
        "`. .venv/bin/activate`, or type `make repro`, which makes it where it is missing or damaged"
    )
except KeyboardInterrupt:  # before anything had begun that could be kept
    sys.stderr.write("study.pipeline: interrupted\n")
    sys.exit(130)
