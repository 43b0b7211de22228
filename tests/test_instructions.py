"""`reproducible: true`: which variables it sets, and that results then do not depend on the CPU."""

import os

import pytest
from processes import python
from study.config.file import read_params
from study.config.recipe import Recipe
from study.pipeline import code, instructions
from study.pipeline.code import write_code
from study.pipeline.instructions import PINNED, InstructionError, pin_instructions, pinned
from study.training.optimizers import build_optimizers
from torch import nn

LESSER = {
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
}
"""What libraries choose on a processor without AVX."""
LITTLE_LESS = {"ATEN_CPU_CAPABILITY": "avx2", "OPENBLAS_CORETYPE": "SkylakeX"}
TRAIN = """
import hashlib, os, sys
from pathlib import Path
if sys.argv[1] == "pinned":
    from study.pipeline.instructions import pin_instructions
    pin_instructions(Path(sys.argv[2]))
import numpy as np, torch
from longrnn.cells import make_cell
torch.set_num_threads(1)
digest = hashlib.sha256()
runs = [("lem", "reference"), ("lstm", "auto")]
if sys.argv[1] == "pinned":  # compiling takes longer than everything else
    runs += [("lem", "auto"), ("lstm", "reference")]
for name, engine in runs:
    torch.manual_seed(0)
    cell = make_cell(name, 3, 16)
    head = torch.nn.Linear(16, 5)
    parameters = [*cell.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01, fused=True)
    inputs = torch.from_numpy(np.random.default_rng(1).random((20, 8, 3), dtype=np.float32))
    for _ in range(3):
        optimizer.zero_grad()
        output = head(cell(inputs, engine=engine)[0][-1])
        torch.nn.functional.cross_entropy(output, torch.arange(8) % 5).backward()
        optimizer.step()
    for parameter in parameters:
        digest.update(parameter.detach().numpy().tobytes())
digest.update(np.exp(np.linspace(-3, 3, 1000)).tobytes())
print(digest.hexdigest())
"""


@pytest.fixture
def environment(monkeypatch):
    """Let a test change `os.environ` as it likes."""
    names = [*PINNED, instructions._MARK]
    for name in names:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return os.environ


def _params(folder, text):
    (folder / "params.yaml").write_text(text, encoding="utf-8")
    return folder


def test_variables_are_set_if_params_say_so(tmp_path, environment):
    pin_instructions(_params(tmp_path, "reproducible: true\n"))
    assert {name: environment[name] for name in PINNED} == dict(PINNED)
    assert pinned()


@pytest.mark.parametrize("text", ["profile: quick\n", "reproducible: false\n", "reproducible: [\n"])
def test_variables_are_unset_without_reproducible(tmp_path, environment, text):
    pin_instructions(_params(tmp_path, text))
    assert not set(PINNED) & set(environment)
    assert not pinned()


def test_processes_inherit_the_decision(tmp_path, environment):
    pin_instructions(_params(tmp_path, "reproducible: false\n"))
    pin_instructions(_params(tmp_path, "reproducible: true\n"))
    assert not pinned()


def test_variables_without_a_decision_pin_instructions(environment):
    environment.update(PINNED)
    assert pinned()
    del environment["MKL_CBWR"]
    assert not pinned()


@pytest.mark.parametrize(
    "options, expected", [({}, True), ({"fused": False}, False), ({"eps": 1e-4}, True)]
)
def test_adam_computes_exact_square_roots_if_pinned(environment, options, expected):
    recipe = Recipe(learning_rate=0.1, steps=1, options=options)
    (optimizer,), _ = build_optimizers(nn.Linear(2, 2), recipe, 0)
    assert not optimizer.defaults["fused"]
    environment.update(PINNED)
    (optimizer,), _ = build_optimizers(nn.Linear(2, 2), recipe, 0)
    assert optimizer.defaults["fused"] is expected
    assert optimizer.defaults["eps"] == options.get("eps", 1e-8)


def test_other_optimizers_have_no_fused_option_if_pinned(environment):
    environment.update(PINNED)
    recipe = Recipe(learning_rate=0.1, steps=1, optimizer="rmsprop")
    (optimizer,), _ = build_optimizers(nn.Linear(2, 2), recipe, 0)
    assert "fused" not in optimizer.defaults


def test_a_processor_without_avx2_is_refused(tmp_path, environment, monkeypatch):
    monkeypatch.setattr(instructions.platform, "machine", lambda: "aarch64")
    with pytest.raises(InstructionError, match=r"AVX2, this is aarch64; set it to false"):
        pin_instructions(_params(tmp_path, "reproducible: true\n"))
    assert not pinned()
    with pytest.raises(InstructionError):  # no decision was made, so it is refused again
        pin_instructions(tmp_path)


def test_stages_run_again_when_the_switch_changes(tmp_path, monkeypatch):
    parameters = read_params()
    monkeypatch.setattr(code, "read_params", lambda _: parameters | {"reproducible": False})
    write_code(tmp_path)
    monkeypatch.setattr(code, "read_params", lambda _: parameters | {"reproducible": True})
    changed = write_code(tmp_path)
    assert {"10_train", "30_tenet", "53_fast_slow"} <= set(changed)
    assert "instructions AVX2" in (tmp_path / "10_train").read_text("utf-8")


@pytest.mark.skipif(not instructions.has_avx2(), reason="this processor has no AVX2")
def test_emulated_processors_give_equal_bytes_when_pinned(tmp_path):
    folder = _params(tmp_path, "reproducible: true\n")

    def trained(how, emulated):
        names = [*PINNED, instructions._MARK]
        env = {name: value for name, value in os.environ.items() if name not in names}
        cache = {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
        done = python("-c", TRAIN, how, folder, env=env | cache | emulated)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert trained("free", LESSER) != trained("free", LITTLE_LESS)
    assert trained("pinned", LESSER) == trained("pinned", LITTLE_LESS)
