"""The pages of the report as the tests read them, and what a browser has to say of them."""

from pathlib import Path

from bs4 import BeautifulSoup


class Page:
    """The links, what it loads, the ids, the rows of tables and the text of one page."""

    def __init__(self, page: Path | str) -> None:
        text = page.read_text("utf-8") if isinstance(page, Path) else page
        self.soup = BeautifulSoup(text, "html.parser")
        self.links = [found["href"] for found in self.soup.select("a[href]")]
        self.loaded = [found["href"] for found in self.soup.select("[href]:not(a)")]
        self.loaded += [found["src"] for found in self.soup.select("[src]")]
        self.ids = {found["id"] for found in self.soup.select("[id]")}
        words = " ".join(" ".join(self.soup.find_all(string=True)).split())
        self.text = words.replace(" .", ".").replace(" ,", ",")
        rows = [row.select("th, td") for row in self.soup.select("tr")]
        self.rows = [[cell.get_text(strip=True) for cell in row] for row in rows]


def watched(page) -> dict[str, list[str]]:
    """Return what a page of a browser will ask for, and what goes wrong on it: lists that fill."""
    seen = {"requests": [], "faults": []}
    page.on("request", lambda request: seen["requests"].append(request.url))
    page.on("requestfailed", lambda request: seen["faults"].append(f"failed {request.url}"))
    page.on("pageerror", lambda error: seen["faults"].append(str(error)))
    page.on("console", lambda said: seen["faults"].append(said.text))
    return seen
