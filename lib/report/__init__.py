"""The report: a static site of what the pipeline produced, built by Sphinx and myst-nb with execution off.

``inputs``
    reads manifests, executed notebooks and the provenance of stored results.
``coverage``
    counts which of the published artefacts were rebuilt.
``verdicts``
    collects the judged claims; the largest experiment decides.
``safe``
    makes text of what others wrote: nothing of it is run.
``numbers``, ``tables``
    data frames as HTML, ours beside theirs; all tables have one form.
``notebooks``
    puts an executed notebook into the site under a title that says whose results it shows.
``pages``
    writes the pages of the site from templates.
``build``, ``conf``
    run Sphinx in a temporary folder, by its settings, and put the finished site in place.
``look``
    analyses the stored results alone, and builds a site of them (`make look`).

`python -m lib.report` builds the site. Nothing here names a notebook or an artefact: a new one appears by itself.
"""
