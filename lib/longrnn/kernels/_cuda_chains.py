r"""What layers of independent neurons share on the GPU: their drive, and its gradients.

A chain is one neuron of one sequence; a thread computes all of its time steps, and a block has up
to 128 threads (`longrnn.kernels._cuda_launch.launch_chains`). Arrays are (time, batch, hidden) and
states (batch, hidden), so neighboring threads read neighboring numbers. The numbers of a chain at
two successive times are batch * hidden apart, the number of chains. Weights are (hidden,), but V is
(hidden, inputs).

The drive :math:`g_t = V x_t + b` of a layer with up to `MOST_INPUTS` inputs is computed inside its
kernels: they read the few inputs, and the drive is neither written nor kept. For a wider layer V x
is one product before the kernel, and the kernel adds the bias. In the kernels `inputs` is the
number of inputs, or 0 if they get V x.

The gradients of w, b and V are sums over times and sequences. Each thread sums over the times of
its chain. A second launch sums over the sequences (`longrnn.kernels._cuda_sums`).

One launch takes the sequences of several runs, one run after the other. What the sequences of a run
share then has the runs as its first axis.

This file prepares launches. The device functions of the kernels are in
`longrnn.kernels._cuda_chains_device`.
"""

from torch import Tensor

from longrnn.kernels._drive import drive

MOST_INPUTS = 4
"""Largest number of inputs of a layer whose kernels compute the drive."""


def product_or_inputs(below: Tensor, V: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Return what the kernels read for the drive of a layer.

    Parameters
    ----------
    below : (time, batch, inputs)
        Inputs of the layer.
    V : (hidden, inputs)
        Input weights.

    Returns
    -------
    product : (time, batch, hidden) or None
        V x of a wide layer.
    inputs : (time, batch, inputs) or None
        The contiguous inputs of a narrow layer.
    """
    if V.shape[1] > MOST_INPUTS:
        return drive(below, V), None
    return None, below.contiguous()


def source_of(g: Tensor | None, x: Tensor | None, V: Tensor | None) -> tuple[Tensor, int]:
    """Return the tensor that the kernels read for the drive, and their number of inputs.

    Parameters
    ----------
    g : (time, batch, hidden) or None
        V x of a wide layer.
    x : (time, batch, inputs) or None
        Inputs of a narrow layer.
    V : (hidden, inputs), (runs, hidden, inputs) or None
        Input weights of a narrow layer.

    Returns
    -------
    source : Tensor
        `x` or `g`.
    inputs : int
        Number of inputs; 0 for a wide layer.
    """
    if x is None:
        return g, 0
    return x, V.shape[-1]


def chains_per_run(state: Tensor, w: Tensor, *, vectors: int = 1) -> int:
    """Return the number of chains that share weights.

    Parameters
    ----------
    state : (batch, hidden)
        The state of all runs.
    w : (vectors * hidden,) or (runs, vectors * hidden)
        Weights per neuron.
    vectors
        Number of weights per neuron in `w`.

    Returns
    -------
    int
        The chains of one run.
    """
    runs = w.numel() // (vectors * state.shape[1])
    return state.numel() // runs


def drive_in_pytorch(g: Tensor | None, x: Tensor | None, V: Tensor | None) -> Tensor:
    """Return V x for the references.

    Parameters
    ----------
    g, x, V
        As for `source_of`.

    Returns
    -------
    (time, batch, hidden)
        `g`, or the product of V and x for one run or several.
    """
    if x is None:
        return g
    if V.dim() == 2:
        return x @ V.T
    return (x.unflatten(1, (len(V), -1)) @ V.mT).flatten(1, 2)


def inputs_gradient(delta: Tensor, V: Tensor) -> Tensor:
    """Return the gradient of the inputs of a narrow layer.

    Parameters
    ----------
    delta : (time, batch, hidden)
        Gradient of the drive.
    V : (hidden, inputs) or (runs, hidden, inputs)
        Input weights of one run or of several.

    Returns
    -------
    (time, batch, inputs)
    """
    if V.dim() == 2:
        return delta @ V
    return (delta.unflatten(1, (len(V), -1)) @ V).flatten(1, 2)
