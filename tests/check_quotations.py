"""Compare the quotations of claims with the papers, letter by letter.

``python tests/check_quotations.py FOLDER`` reads the text of the papers, which are not part of this
repository, from files whose names start with ``dissertation``, ``irnn``, ``lem`` and ``unicornn``.
White space, hyphens, upper case, ligatures, emphasis and footnote marks don't count.
"""

import re
import sys
import unicodedata
from pathlib import Path

from study.claims.listed import PAPERS, claims

QUOTES = str.maketrans("\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}", "''")


def letters(text: str) -> str:
    """Return a text without what does not count."""
    text = unicodedata.normalize("NFKC", text).casefold().translate(QUOTES)
    text = re.sub(r"<sup>.*?</sup>", "", text)
    return re.sub(r"[\s*\N{SOFT HYPHEN}\N{HYPHEN}\N{NON-BREAKING HYPHEN}-]+", "", text)


def is_verbatim(quotation: str, text: str) -> bool:
    """Return whether the parts of a quotation outside of brackets occur in a text, in order."""
    end = 0
    for part in re.split(r"\[[^]]*\]", quotation):
        start = text.find(letters(part), end)
        if start < 0:
            return False
        end = start + len(letters(part))
    return True


def main(folder: Path) -> int:
    """Print the quotations that are not verbatim, and how many are."""
    texts = {}
    for paper in PAPERS:
        paths = sorted(folder.glob(f"{paper}*.txt"))
        texts[paper] = [letters(path.read_text("utf-8")) for path in paths]
    quoting = [claim for claim in claims().values() if claim.quoted]
    wrong = []
    for claim in quoting:
        if not any(is_verbatim(claim.quoted, text) for text in texts[claim.paper]):
            wrong.append(claim)
            print(f"{claim.id}: {claim.quoted}")
    own_words = len(claims()) - len(quoting)
    print(f"{len(quoting)} quotations, {len(wrong)} not verbatim; {own_words} claims in our words")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
