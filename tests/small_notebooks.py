"""Build small notebooks from given code, with the cells that the repository's notebooks have."""

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook


def plain_notebook(parameters, *code, tags=("parameters",)):
    """Return a notebook with a cell of parameters and these cells of code."""
    cells = [
        new_markdown_cell("# Does it run?", id="title"),
        new_code_cell(parameters, id="parameters", metadata={"tags": list(tags)}),
        *(new_code_cell(source, id=f"cell-{i}") for i, source in enumerate(code)),
        new_code_cell("assert True", id="checks"),
        new_code_cell("print('versions')", id="versions"),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})
