"""Device functions of the kernels with weights that stay on the multiprocessor.

Thread ``part * width + row`` of a block multiplies a part of a row of the matrix. So the 32 threads
of a warp have the same part of 32 neighboring rows. In order, the shared memory of a block has

==================  ====================================  =========================
begins at           numbers                               contents
==================  ====================================  =========================
0                   parts * (weights of a thread) * tile  the vectors x
`shared_weights`    parts * width * in_memory             weights
`sums`              (parts - 1) * width * tile            parts of the products
`exchanged`         `Layout.exchanged` * tile             gates
==================  ====================================  =========================

where a thread has ``in_registers + in_memory`` weights. One instruction reads 16 bytes from it,
four numbers in float32, and the numbers are in an order that suits this:

- The vectors are those of all `tile` sequences: the first numbers of all sequences, then the second
  ones, and so on. All threads of a warp read the same numbers, so one access serves them all.
- Of the weights in shared memory, four of the first row are followed by four of the second, and so
  on to the last row, then come the next four of the first row. So neighboring threads read
  neighboring memory, without conflicts between its banks.
- The first thread of a row adds the parts of the products that the others have computed. Its own
  part stays in registers.
- In the forward kernels of gated cells, a thread computes one gate of a unit, and the threads of
  the last gate read the others.

A kernel with two matrices has vectors and weights of both (`pair_offsets`). The arrays in global
memory have the shapes that `longrnn.kernels._cuda_dense` gives.

All kernels begin alike: each one creates its local arrays, and reads as a whole from the first line
to the last.
"""

from longrnn.kernels._cpu import ZERO
from longrnn.kernels._cuda import SIMULATED, device
from longrnn.kernels._cuda_dense import unsigned

ALIGNMENT = 16
"""Alignment of the shared memory in bytes, so that one access can read four numbers."""
if SIMULATED:
    ALIGNMENT = None  # Numba's simulator does not support it

# Compile-time constants of the kernels, which a launch sets; see
# `longrnn.kernels._cuda_persistent.Layout`, and for the last three `PairLayout` there.
width = 32
parts = 1
in_registers = 4
in_memory = 0
rows = 1
in_registers_y = 4
in_memory_y = 0


@device
def shared_offsets(width, parts, in_registers, in_memory, tile):
    """Return where the regions of the shared memory begin that follow the vectors.

    Parameters
    ----------
    width, parts, in_registers, in_memory : int
        See `longrnn.kernels._cuda_persistent.Layout`.
    tile : int
        Number of sequences per block.

    Returns
    -------
    shared_weights, sums, exchanged : int
        Offsets, see the module's docstring. The first is also the length of all vectors.
    """
    shared_weights = parts * (in_registers + in_memory) * tile
    sums = shared_weights + parts * width * in_memory
    exchanged = sums + (parts - 1) * width * tile
    return shared_weights, sums, exchanged


@device
def pair_offsets(
    width, parts, rows, in_registers, in_memory, in_registers_y, in_memory_y, tile
):  # fmt: skip
    """Return where the regions of the shared memory begin in a kernel with two matrices.

    The vectors that W multiplies come first.

    Parameters
    ----------
    width, parts, rows, in_registers, in_memory, in_registers_y, in_memory_y : int
        See `longrnn.kernels._cuda_persistent.PairLayout`.
    tile : int
        Number of sequences per block.

    Returns
    -------
    vectors_y, W_at, W_y_at, sums : int
        Offsets of the vectors that W_y multiplies, of the weights of W and of W_y, and of the parts
        of the sums. The second is also the length of all vectors.
    """
    vectors_y = parts * (in_registers + in_memory) * tile
    W_at = vectors_y + parts * (in_registers_y + in_memory_y) * tile
    W_y_at = W_at + rows * parts * width * in_memory
    sums = W_y_at + parts * width * in_memory_y
    return vectors_y, W_at, W_y_at, sums


@device
def load_row(
    weights, memory, shared_weights, in_memory, matrix, first, rows, columns, row, part, width
):  # fmt: skip
    """Read a thread's part of a row of a matrix, which a forward kernel multiplies by.

    Beyond the matrix, weights are zero.

    Parameters
    ----------
    weights : (in_registers,)
        Local array that receives the first weights.
    memory : array
        The shared memory.
    shared_weights : int
        Offset from which it receives the other weights of all threads.
    in_memory : int
        Number of these weights of a thread.
    matrix : pointer
        The matrix in global memory, one row after the other.
    first : int
        Index of the matrix's first number.
    rows, columns : int
        Size of the matrix.
    row, part : int
        Index of the row, and of the part of it that this thread computes.
    width : int
        See `longrnn.kernels._cuda_persistent.Layout`.
    """
    row_stride = columns
    column_stride = 1
    _load_weights(
        weights, memory, shared_weights, in_memory, matrix, first, row_stride, column_stride, rows,
        columns, row, part, width,
    )  # fmt: skip


@device
def load_column(
    weights, memory, shared_weights, in_memory, matrix, first, rows, columns, column, part, width
):  # fmt: skip
    """Read a thread's part of a column of a matrix.

    The column is a row of the transposed matrix, which a backward kernel multiplies by.

    Parameters
    ----------
    weights, memory, shared_weights, in_memory, matrix, first, rows, columns
        As for `load_row`: the matrix itself, not the transposed one.
    column, part : int
        Index of the column, and of the part of it that this thread computes.
    width : int
        See `longrnn.kernels._cuda_persistent.Layout`.
    """
    row_stride = 1  # rows and columns of the transposed matrix
    column_stride = columns
    _load_weights(
        weights, memory, shared_weights, in_memory, matrix, first, row_stride, column_stride,
        columns, rows, column, part, width,
    )  # fmt: skip


@device
def _load_weights(
    weights, memory, shared_weights, in_memory, matrix, first, row_stride, column_stride, rows,
    columns, row, part, width,
):  # fmt: skip
    """Read a thread's part of a row of a matrix with any strides.

    The number in row j and column k has index ``first + j * row_stride + k * column_stride``.
    The other parameters are those of `load_row`.
    """
    in_registers = weights.size
    column = part * (in_registers + in_memory)
    index = first + row * row_stride + column * column_stride
    for q in range(in_registers):
        weights[q] = ZERO
        if row < rows and column + q < columns:
            weights[q] = matrix[index + q * column_stride]
    q = 0  # no `range`: the compiler would unroll a loop that runs once
    while q < in_memory:
        k = in_registers + q
        weight = ZERO
        if row < rows and column + k < columns:
            weight = matrix[index + k * column_stride]
        four = (part * in_memory + q) // 4
        memory[unsigned(shared_weights + 4 * (four * width + row) + q % 4)] = weight
        q += 1


@device
def add_products(totals, weights, memory, vectors, shared_weights, in_memory, row, part, width):
    """Set `totals` to a thread's part of its row of the products.

    The compiler unrolls the loop over `weights`, because its length is constant. Otherwise they
    could not be registers: a register has no index.

    Parameters
    ----------
    totals : (tile,)
        Local array that receives the sums.
    weights, memory
        As for `load_row`.
    vectors : int
        Offset of the vectors in the shared memory.
    shared_weights, in_memory, row, part, width
        As for `load_row`.
    """
    in_registers = weights.size
    tile = totals.size
    column = part * (in_registers + in_memory)
    for i in range(tile):
        totals[i] = ZERO
    for q in range(in_registers):
        for i in range(tile):
            totals[i] += weights[q] * memory[unsigned(vectors + (column + q) * tile + i)]
    column += in_registers
    four = shared_weights // 4 + part * in_memory // 4 * width + row
    k = 0  # no `range`: its state would take as many instructions as the products
    while k < in_memory:
        for q in range(4):
            weight = memory[unsigned(4 * four + q)]
            for i in range(tile):
                totals[i] += weight * memory[unsigned(vectors + (column + q) * tile + i)]
        four += width
        column += 4
        k += 4


@device
def add_products_of_rows(
    totals, weights, memory, vectors, shared_weights, in_memory, row, part, parts, width
):  # fmt: skip
    """Set `totals` to a thread's parts of several rows, which have the same index in their blocks.

    The thread reads each number of the vectors once, for all of its rows.

    Parameters
    ----------
    totals : (rows, tile)
        Local array that receives the sums.
    weights : (rows, in_registers)
        Local array with the first weights of each row.
    memory, vectors
        As for `add_products`.
    shared_weights : int
        Offset of the other weights of all threads. Those of the first block of the matrix come
        first, then those of the second, and so on.
    in_memory : int
        Number of these weights of a thread and a row.
    row, part, width
        As for `load_row`; the row is that of a block.
    parts : int
        See `longrnn.kernels._cuda_persistent.PairLayout`.
    """
    rows, in_registers = weights.shape
    tile = totals.shape[1]
    column = part * (in_registers + in_memory)
    for block in range(rows):
        for i in range(tile):
            totals[block, i] = ZERO
    for q in range(in_registers):
        for block in range(rows):
            for i in range(tile):
                value = memory[unsigned(vectors + (column + q) * tile + i)]
                totals[block, i] += weights[block, q] * value
    column += in_registers
    fours = parts * width * in_memory // 4  # of a block
    four = shared_weights // 4 + part * in_memory // 4 * width + row
    k = 0  # no `range`, as in `add_products`
    while k < in_memory:
        for q in range(4):
            for block in range(rows):
                weight = memory[unsigned(4 * (four + block * fours) + q)]
                for i in range(tile):
                    value = memory[unsigned(vectors + (column + q) * tile + i)]
                    totals[block, i] += weight * value
        four += width
        column += 4
        k += 4


@device
def store_part(totals, memory, sums, row, part, width):
    """Write a part of a row to shared memory, for `add_parts`; the first part stays in registers.

    Parameters
    ----------
    totals : (tile,)
        The part of the sums.
    memory : array
        The shared memory.
    sums : int
        Offset from which it receives the sums of all parts.
    row, part, width
        As for `load_row`.
    """
    if part > 0:
        for i in range(totals.size):
            memory[unsigned(sums + ((part - 1) * width + row) * totals.size + i)] = totals[i]


@device
def add_parts(totals, memory, sums, row, parts, width):
    """Add the other parts of a row to the first.

    Parameters
    ----------
    totals : (tile,)
        The first part, which becomes the sum.
    memory, sums, row, width
        As for `store_part`.
    parts : int
        See `longrnn.kernels._cuda_persistent.Layout`.
    """
    for part in range(parts - 1):
        for i in range(totals.size):
            totals[i] += memory[unsigned(sums + (part * width + row) * totals.size + i)]


@device
def clear_vectors(memory, count, thread, threads):
    """Set the vectors to zero, including the padding after the last unit.

    Parameters
    ----------
    memory : array
        The shared memory.
    count : int
        Length of the vectors of all sequences together.
    thread, threads : int
        Index of this thread, and number of threads of the block.
    """
    k = thread
    while k < count:
        memory[unsigned(k)] = ZERO
        k += threads
