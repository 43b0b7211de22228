r"""What the GPU kernels share: the one import of Numba's CUDA target, how kernels are compiled and launched, activations.

A kernel takes pointers to the first number of contiguous tensors and does its own indexing. Wrapping every tensor as a device
array would cost more on the host than a short kernel does on the GPU; a pointer costs nothing, and Numba's simulator,
where the tests run, gets flat NumPy views in its place. Kernels are compiled for one type of number at their first launch, in
about a second, and kept in memory: a cache on disk would not notice a change of the functions that a kernel inlined.

What every kernel keeps to:

- a launch goes to PyTorch's current stream, allocates nothing and does not wait, so that it can be captured in a graph (once
  compiled: run a cell before capturing it);
- no atomics: what belongs to a sum is written per chain and summed by PyTorch, in the same order every time;
- ``fastmath`` stays off: it flushes denormals, and this project measures vanishing gradients. Contraction to fused multiply-add
  is Numba's default and stays;
- constants are written ``real(1)``: 1 beside a float32 would make float64 arithmetic.

Tensors carry a leading run axis, (run, time, batch, hidden), so that many networks train in one launch; see `engine`.
"""

import math
import os
import sys
from collections.abc import Callable
from functools import cache, wraps
from types import FunctionType

import numpy as np
import torch
from torch import Tensor

from lib.kernels._registry import register
from lib.kernels._runs import map_tensors, tensors_of

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
"""Whether Numba's simulator stands for the GPU; kernels then take CPU tensors."""

# Importing the target takes a second, which a machine without a GPU need not spend; a process that has imported
# it already wants to compile.
if SIMULATED or torch.cuda.is_available() or "numba.cuda" in sys.modules:
    from numba import cuda, types
else:
    cuda = types = None

_DTYPES = (torch.float32, torch.float64)

real = np.float32
"""In the text of a kernel: the type of number that it is being compiled for."""


class Kernel:
    """A function that runs once for each thread, compiled for each type of number that it meets."""

    def __init__(self, function: Callable) -> None:
        self.function = function
        self.__name__ = function.__name__
        self._compiled = {}

    def bound(self, dtype: torch.dtype) -> FunctionType:
        """Return the function with `real` meaning `dtype`."""
        names = self.function.__globals__ | {"real": _number(dtype)}
        return FunctionType(self.function.__code__, names, self.__name__)

    def compiled(self, arguments: tuple):
        """Return the machine code for such arguments; raises `RuntimeError` where it would compile during a capture."""
        key = dtype_of(arguments), tuple(isinstance(part, Tensor) for part in arguments)
        if key not in self._compiled:
            if not SIMULATED and torch.cuda.is_current_stream_capturing():
                raise RuntimeError(
                    f"kernel {self.__name__} is not compiled yet, which a graph capture does not allow; "
                    "run the same forward and backward pass once before capturing it"
                )
            options = () if SIMULATED else (types.void(*signature(arguments)),)
            self._compiled[key] = cuda.jit(*options)(self.bound(key[0]))
        return self._compiled[key]


def kernel(function: Callable) -> Kernel:
    """Make `function` a kernel."""
    return Kernel(function)


def device(function: Callable) -> Callable:
    """Make `function` one that kernels call; scalars in, scalars out."""
    return function if cuda is None else cuda.jit(device=True, inline="always")(function)


def dtype_of(arguments: tuple) -> torch.dtype:
    """Return the one type of the tensors among a kernel's arguments."""
    (dtype,) = {part.dtype for part in arguments if isinstance(part, Tensor)}
    return dtype


def signature(arguments: tuple) -> tuple:
    """Return the types that a kernel is compiled for: a pointer for each tensor, int64 for each number."""
    pointer = types.CPointer(_number(dtype_of(arguments)))
    return tuple(pointer if isinstance(part, Tensor) else types.int64 for part in arguments)


def _number(dtype: torch.dtype):
    """Return Numba's type of number."""
    return getattr(types, str(dtype).removeprefix("torch."))


def launch(run: Kernel, blocks: int, threads: int, *arguments: Tensor | int, shared: int = 0):
    """Run a kernel on PyTorch's current stream.

    Parameters
    ----------
    run
        The kernel.
    blocks, threads
        Number of blocks, and of threads in each.
    *arguments
        Contiguous tensors of one type, and whole numbers.
    shared
        Bytes of dynamic shared memory of each block.
    """
    if not all(part.is_contiguous() for part in arguments if isinstance(part, Tensor)):
        raise AssertionError(f"kernel {run.__name__} got a tensor that is not contiguous")
    if SIMULATED:
        values = [
            part.reshape(-1).numpy() if isinstance(part, Tensor) else part for part in arguments
        ]
        stream = 0
    else:
        values = [part.data_ptr() if isinstance(part, Tensor) else part for part in arguments]
        stream = _stream(torch.cuda.current_stream().cuda_stream)
    run.compiled(arguments)[blocks, threads, stream, shared](*values)


@cache
def _stream(pointer: int):
    """Wrap a stream of PyTorch's, once each: Numba looks launch configurations up by this object."""
    return cuda.external_stream(pointer) if pointer else 0


def launch_chains(run: Kernel, chains: int, *arguments: Tensor | int) -> None:
    """Run a kernel with one thread for each of `chains` independent recurrences.

    A block has 128 threads, or fewer where that would leave multiprocessors without one.
    """
    processors = 1 if SIMULATED else _processors()
    fits = [threads for threads in (128, 64) if chains >= threads * processors]
    threads = fits[0] if fits else 32
    launch(run, -(-chains // threads), threads, *arguments, chains)


def launch_rows(run: Kernel, state: Tensor, *arguments: Tensor | int, buffers: int) -> None:
    """Run a kernel with one block for each sequence of `state`, (run, batch, hidden), and one thread for each unit.

    Above 1024 units, the most that a block may have, a thread does several. `buffers` says how many vectors of the
    hidden size a block keeps in shared memory; batch and hidden size follow the other arguments.

    Raises
    ------
    ValueError
        The buffers exceed the shared memory that every GPU grants a block.
    """
    runs, batch, d = state.shape
    shared = buffers * d * state.element_size()
    if shared > _SHARED_BYTES:
        most = _SHARED_BYTES // buffers // state.element_size()
        raise ValueError(
            f"expected a hidden size of at most {most} in {state.dtype} on numba-cuda, got {d}; "
            "use engine='reference'"
        )
    threads = min(-(-d // 32) * 32, 1024)
    launch(run, runs * batch, threads, *arguments, batch, d, shared=shared)


_SHARED_BYTES = 48 * 1024


@cache
def _processors() -> int:
    return torch.cuda.get_device_properties(0).multi_processor_count


# ---------------------------------------------------------------------------------- inside kernels

ONE, ZERO = np.float32(1), np.float32(0)
"""For functions of scalars, which cannot know `real`: exact in float64 too."""


# NumPy's functions keep the type of a scalar in the simulator, `math`'s are what the compiler knows.
_tanh, _exp = (np.tanh, np.exp) if SIMULATED else (math.tanh, math.exp)


@device
def tanh(x):
    """Return tanh(x) in x's own type."""
    return _tanh(x)


@device
def sigmoid(x):
    """Return the logistic function of x in x's own type."""
    return ONE / (ONE + _exp(-x))


@device
def dot(matrix, first, stride, vector):
    """Return the product of a vector and as many numbers of a matrix, `stride` apart from `first` on."""
    total = matrix[first] * vector[0]
    for k in range(1, vector.size):
        first += stride
        total += matrix[first] * vector[k]
    return total


@device
def origin(chain, steps, size):
    """Return where a chain begins in an array (run, steps, size), size being the chains of one run."""
    return chain // size * steps * size + chain % size


def pipelined(fetch: Callable, step: Callable) -> Callable:
    """Return a device function that does steps 0..count-1 of a chain, their inputs under way eight steps before.

    So the latency of memory is hidden although few chains run at a time. The eight are spelled out, because what a
    loop over them indexes would leave the registers.

    Parameters
    ----------
    fetch
        ``fetch(arrays, n) -> inputs`` reads what step n needs.
    step
        ``step(neuron, state, inputs, arrays, n) -> state`` does step n and writes its results.

    Returns
    -------
    Callable
        ``run(neuron, state, arrays, count) -> state``.
    """

    @device
    def run(neuron, state, arrays, count):
        whole = count // 8 * 8
        if whole > 0:
            a, b, c, d = fetch(arrays, 0), fetch(arrays, 1), fetch(arrays, 2), fetch(arrays, 3)
            e, f, g, h = fetch(arrays, 4), fetch(arrays, 5), fetch(arrays, 6), fetch(arrays, 7)
        for n in range(0, whole, 8):
            m = min(n + 8, whole - 8)
            now = a, b, c, d, e, f, g, h
            a, b, c, d = (
                fetch(arrays, m),
                fetch(arrays, m + 1),
                fetch(arrays, m + 2),
                fetch(arrays, m + 3),
            )
            e, f, g, h = (
                fetch(arrays, m + 4),
                fetch(arrays, m + 5),
                fetch(arrays, m + 6),
                fetch(arrays, m + 7),
            )
            state = step(neuron, state, now[0], arrays, n)
            state = step(neuron, state, now[1], arrays, n + 1)
            state = step(neuron, state, now[2], arrays, n + 2)
            state = step(neuron, state, now[3], arrays, n + 3)
            state = step(neuron, state, now[4], arrays, n + 4)
            state = step(neuron, state, now[5], arrays, n + 5)
            state = step(neuron, state, now[6], arrays, n + 6)
            state = step(neuron, state, now[7], arrays, n + 7)
        for n in range(whole, count):
            state = step(neuron, state, fetch(arrays, n), arrays, n)
        return state

    return run


# ---------------------------------------------------------------------------------- engines


def engine(*cells: str, **more) -> Callable:
    """Return a decorator that registers a function as the engine ``numba-cuda`` of `cells`.

    The function sees a leading run axis everywhere: weights (run, ...), states (run, batch, hidden), input
    (run, time, batch, input). Registered, it takes one network, with shapes as in `lib.cells.Cell.forward`, or many: weights
    from `lib.kernels.stack_runs` and an input of four dimensions, whose first may be 1 where all runs read the same.
    It checks what it gets, and says so in a sentence where the device has too little memory.
    """
    label = cells[0]

    def add(run: Callable) -> Callable:
        @wraps(run)
        def checked(weights, state, u, **options):
            alone = u.dim() == 3
            if alone:
                weights, state, u = (
                    map_tensors(_one_run, part) for part in (weights, tuple(state), u)
                )
            _check(label, weights, state, u)
            try:
                outputs, final = run(weights, state, u, **options)
            except torch.OutOfMemoryError:
                raise torch.OutOfMemoryError(_too_large(label, state, u)) from None
            return (outputs[0], tuple(part[0] for part in final)) if alone else (outputs, final)

        devices = ("cpu",) if SIMULATED else ("cuda",)
        register("numba-cuda", *cells, devices=devices, dtypes=_DTYPES, **more)(checked)
        return checked

    return add


def _one_run(tensor: Tensor) -> Tensor:
    return tensor[None]


def _check(cell: str, weights, state, u: Tensor) -> None:
    if u.dim() != 4 or 0 in u.shape:
        raise ValueError(
            f"{cell}: expected an input (time, batch, input) or (run, time, batch, input) with no size of 0, "
            f"got {tuple(u.shape)}"
        )
    tensors = tensors_of((weights, state, u))
    wrong = next((part for part in tensors if part.device != u.device), None)
    if wrong is not None:
        raise ValueError(
            f"{cell}: expected weights and states on {u.device} like the input, got one on {wrong.device}; "
            "move them with .to(...)"
        )
    if u.is_cuda and u.device.index != 0:
        raise ValueError(
            f"{cell}: expected tensors on cuda:0, got {u.device}; choose a GPU with CUDA_VISIBLE_DEVICES"
        )
    runs = {len(part) for part in (*tensors_of(state), *tensors_of(weights))}
    batches = {part.shape[1:] for part in state}
    if len(runs) != 1 or u.shape[0] not in (1, *runs):
        raise ValueError(
            f"{cell}: expected weights, states and input of equally many runs, got {sorted(runs)} "
            f"and an input of {u.shape[0]}"
        )
    if len(batches) != 1 or state[0].dim() != 3 or state[0].shape[1] != u.shape[2]:
        raise ValueError(
            f"{cell}: expected states (run, batch, hidden) with batch={u.shape[2]}, "
            f"got {', '.join(str(tuple(part.shape)) for part in state)}"
        )


def _too_large(cell: str, state, u: Tensor) -> str:
    size = u.shape[1] * state[0].numel() * u.element_size() / 2**30
    free = f", {torch.cuda.mem_get_info()[0] / 2**30:.1f} GiB are free" if u.is_cuda else ""
    return (
        f"{cell} needs several arrays (run, time, batch, hidden) of {size:.2g} GiB each{free}; "
        "use fewer runs, a smaller batch or shorter sequences"
    )


def drive(cell: str, u: Tensor, V: Tensor, b: Tensor | None = None) -> Tensor:
    """Return V u_t + b for all times at once, contiguous (run, time, batch, rows).

    Parameters
    ----------
    cell
        Who asks, for the error.
    u : (run, time, batch, input)
        The input; its first size may be 1.
    V : (run, rows, input)
        Weights.
    b : (run, rows), optional
        Biases.
    """
    runs, rows, features = V.shape
    if u.shape[-1] != features:
        raise ValueError(
            f"{cell}: expected an input of {features} features, got {tuple(u.shape)}, whose last size is {u.shape[-1]}"
        )
    flat = u.reshape(len(u), -1, features).expand(runs, -1, -1)
    b = V.new_zeros(runs, rows) if b is None else b
    return torch.baddbmm(b[:, None], flat, V.mT).view(runs, *u.shape[1:3], rows)


def per_chain(value: Tensor | float, like: Tensor) -> Tensor:
    """Return one value for each chain, contiguous and shaped as `like`, (run, batch, hidden).

    `value` is a number, one for each run (run,), or one for each neuron (run, hidden). Autograd sums over what
    shared a value.
    """
    if not isinstance(value, Tensor):
        return torch.full_like(like, value)
    value = value.to(like)
    value = value[:, None, None] if value.dim() == 1 else value[:, None]
    return value.expand_as(like).contiguous()


def gradient(arrived: Tensor | None, like: Tensor) -> Tensor:
    """Return a gradient that arrived, contiguous, or zeros like `like` where none did."""
    return torch.zeros_like(like) if arrived is None else arrived.contiguous()


def recurrent_gradient(delta: Tensor, x0: Tensor, outputs: Tensor) -> Tensor:
    r"""Return :math:`\sum_t \delta_t x_{t-1}^\top`, (run, rows, hidden), over times and sequences.

    Parameters
    ----------
    delta : (run, time, batch, rows)
        Adjoints of the product of the matrix and the state.
    x0 : (run, batch, hidden)
        State before the first input.
    outputs : (run, time, batch, hidden)
        States after every input.
    """
    rest = torch.bmm(delta[:, 1:].flatten(1, 2).mT, outputs[:, :-1].flatten(1, 2))
    return torch.baddbmm(rest, delta[:, 0].mT, x0)
