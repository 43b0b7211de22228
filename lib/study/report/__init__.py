"""The report: a static site of what the pipeline produced, built by Sphinx and myst-nb with execution off.

`python -m study.report` builds the site. Nothing here names a notebook or an artefact: a new one appears by itself.
"""
