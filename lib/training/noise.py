r"""The numbers that a NumPy generator will draw, wherever they are wanted and in any order.

PCG64 (M. E. O'Neill, *PCG: a family of simple fast space-efficient statistically good algorithms for random number generation*,
2014; NumPy's is the variant XSL-RR of 128 bits) steps by :math:`s \to A s + c` modulo :math:`2^{128}`. So k steps are one,
:math:`s \to A_k s + c_k`, and a number follows from its place alone. With it the noise that an attempt adds to its inputs (see
`lib.tasks.variations`) need not be held for a whole data set, nor travel to a GPU: a batch's can be made there, and is the noise that
the CPU would have drawn, to the bit. No training uses it yet: that waits for a measurement on a GPU of what the copies cost.

Numbers of 128 bits are eight limbs of 16 in int64 tensors, the lowest first: no sum of their products overflows.
"""

import numpy as np
import torch
from torch import Tensor

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
"""A, of PCG64."""
_LIMBS, _BITS = 8, 16
_WORD = (1 << 32) - 1


class Noise:
    """Rows of numbers from U(0, 1), as ``rng.random((rows, size), dtype=np.float32)`` would draw them.

    Parameters
    ----------
    rng
        A generator over PCG64, as `numpy.random.default_rng` makes it. Its state is read; it draws nothing.
    rows, size
        Rows that there are, and numbers in one.
    device
        Where the numbers are made.

    Raises
    ------
    ValueError
        The generator is another one.
    """

    def __init__(
        self, rng: np.random.Generator, rows: int, size: int, device: torch.device | str = "cpu"
    ) -> None:
        told = rng.bit_generator.state
        if told["bit_generator"] != "PCG64":
            raise ValueError(f"expected a generator over PCG64, got {told['bit_generator']}")
        self._size = size
        # An output makes two numbers. Where one is left of an output begun before, it is the first of all.
        self._left = told["uinteger"] if told["has_uint32"] else None
        before = [row * size - (self._left is not None) for row in range(rows)]
        self._odd = torch.tensor([count % 2 for count in before], device=device)
        multiplier, added = _steps([count // 2 for count in before], told["state"]["inc"], device)
        state = _limbs([told["state"]["state"]], device)
        self._starts = _multiply_add(multiplier, state, added)
        self._ahead = _steps(list(range(1, size // 2 + 3)), told["state"]["inc"], device)

    def rows(self, indices: Tensor) -> Tensor:
        """Return these rows, (k, size) float32, for indices (k,) on the device."""
        starts = self._starts[:, indices, None]
        multiplier, added = (part[:, None] for part in self._ahead)
        words = _outputs(_multiply_add(multiplier, starts, added))  # (k, numbers)
        places = self._odd[indices, None] + torch.arange(self._size, device=words.device)
        words = words.gather(1, places)
        if self._left is not None:
            words[:, 0] = torch.where(indices == 0, self._left, words[:, 0])
        return (words >> 8).float() * 2.0**-24  # as NumPy makes a float32 of 32 bits


def _steps(counts: list[int], increment: int, device) -> tuple[Tensor, Tensor]:
    """Return A_k and c_k of these numbers of steps, ascending from -1 or more, each (limbs, k)."""
    inverse = pow(MULTIPLIER, -1, 1 << 128)
    multiplier, added, now, found = 1, 0, 0, []
    for count in counts:
        if count < 0:  # one step back: the output of which a number is left
            found.append((inverse, -increment * inverse))
            continue
        k = count - now  # as many steps again, by powers of two
        A, c = MULTIPLIER, increment
        while k:
            if k & 1:
                multiplier, added = A * multiplier % 2**128, (A * added + c) % 2**128
            A, c, k = A * A % 2**128, (A + 1) * c % 2**128, k >> 1
        now = count
        found.append((multiplier, added))
    return tuple(_limbs([pair[i] for pair in found], device) for i in (0, 1))


def _limbs(numbers: list[int], device) -> Tensor:
    """Return numbers modulo 2^128 as limbs, (limbs, k)."""
    content = b"".join((n % 2**128).to_bytes(16, "little") for n in numbers)
    limbs = np.frombuffer(content, "<u2").reshape(-1, _LIMBS).astype(np.int64)
    return torch.from_numpy(limbs.T.copy()).to(device)


def _multiply_add(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Return a b + c modulo 2^128, limbs first."""
    found, carry = [], 0
    for k in range(_LIMBS):
        total = c[k] + carry + sum(a[i] * b[k - i] for i in range(k + 1))
        found.append(total & 0xFFFF)
        carry = total >> _BITS
    return torch.stack(torch.broadcast_tensors(*found))


def _outputs(state: Tensor) -> Tensor:
    """Return the 32-bit numbers of states (limbs, k, n), two of each, as (k, 2 n)."""
    x = sum(
        (state[i] ^ state[i + 4]) << (i * _BITS) for i in range(4)
    )  # XSL: the halves, one on the other
    turn = state[7] >> 10  # RR: turned to the right by the highest six bits
    kept = ~((-2 * torch.ones_like(x)) << (63 - turn))  # an int64 is shifted with its sign
    y = ((x >> turn) & kept) | (x << (-turn & 63))
    return torch.stack([y & _WORD, (y >> 32) & _WORD], dim=-1).flatten(-2)
