"""Print the architectures: ``python -m longrnn.cells``."""

from longrnn import kernels
from longrnn.cells import cell_class, cell_names

for name in cell_names():
    cell = cell_class(name)
    file = cell.__module__.replace(".", "/") + ".py"
    print(f"{name:20} {cell.title:24} {file:36} {cell.source}")
    print(f"{'':20} engines: {', '.join(kernels.engine_names(name))}")
