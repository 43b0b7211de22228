"""The report: a static site of what the pipeline produced, built by Sphinx; nothing is executed.

`python -m study.report` builds the site. Except for the sentences of the front page
(``findings.yaml``), nothing here names a notebook or an artifact, so new ones appear by themselves.

From files to pages:

1. ``inputs`` reads manifests, executed notebooks and provenance into the types of ``contents``.
2. ``verdicts`` chooses the results that judge each claim, and corrects the verdicts; ``tally``
   counts them. ``coverage`` counts which published figures and tables were rebuilt.
3. ``pages`` fills the templates with ``groups`` (figures and tables), ``questions`` and ``answers``
   (of notebooks), ``claim_text``, ``claim_words``, ``readings`` and ``intervals`` (of claims), and
   ``findings`` and ``intervention`` (of the front page). ``titles``, ``tables`` and ``numbers``
   format them.
4. ``notebooks``, ``notebook_page`` and ``notebook_outputs`` turn executed notebooks into pages,
   with the Markdown and HTML that ``restricted`` allows.
5. ``build`` runs Sphinx with the settings in ``conf``, and replaces the old site.

Other commands: ``look`` (`make look`), ``compare`` with ``rebuild_numbers`` (`make compare`), and
``readme`` with ``readme_numbers`` and ``slopes`` (`make readme`).
"""
