"""The report: a static site of what the pipeline produced, built by Sphinx; nothing is executed.

`python -m study.report` builds the site. Nothing here names a notebook or an artefact, except the
sentences of the front page (``findings.yaml``): a new one appears by itself.
"""
