"""Checks of arguments that several probes share."""

from longrnn.cells import Cell


def check_is_cell(cell: object) -> None:
    """Check that an argument is a bare cell, not a layer of cells.

    Parameters
    ----------
    cell
        The first argument of a probe.

    Raises
    ------
    TypeError
        It is not a `longrnn.cells.Cell`.
    """
    if not isinstance(cell, Cell):
        raise TypeError(
            f"expected a bare cell, got {type(cell).__name__}; pass one cell of a layer, such as "
            'layer.cells["l0"], or longrnn.make_cell(...)'
        )
