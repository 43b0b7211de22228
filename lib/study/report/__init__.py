"""The report: a static site of what the pipeline produced, built by Sphinx; nothing is executed.

`python -m study.report` builds the site. Except for the sentences of the front page
(``findings.yaml``), nothing here names a notebook or an artefact, so new ones appear by themselves.
"""
