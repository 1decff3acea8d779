"""Checks the links of a folder of HTML files."""

import html.parser
import os
import urllib.parse


class Page(html.parser.HTMLParser):
    """Collects a page's links, what it loads, and its anchors."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], {""}
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value)
            elif name == "href" and tag == "a":
                self.links.append(value)
            elif name in ("src", "href", "srcset"):
                self.loaded.append(value)


def dead_links(folder, searched):
    """A sentence for each link to a page or an anchor that is not there, and for what would be loaded from elsewhere.

    `searched` are the addresses of the search, relative to the folder.
    """
    pages = {}
    for place, _, names in os.walk(folder):
        for name in (name for name in names if name.endswith(".html")):
            path = os.path.relpath(os.path.join(place, name), folder)
            pages[path] = Page(os.path.join(folder, path))
    problems = []
    targets = [(path, link) for path, page in sorted(pages.items()) for link in page.links + page.loaded]
    for path, link in targets + [("symbols.js", address) for address in searched]:
        address = urllib.parse.urlsplit(link)
        if address.scheme or address.netloc:
            if address.scheme != "data" and path in pages and link in pages[path].loaded:
                problems.append(f"{path} would load {link} from elsewhere: put the file into the repository")
            continue
        target = (
            os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(address.path)))
            if address.path
            else path
        )
        anchor = urllib.parse.unquote(address.fragment)
        if not os.path.isfile(os.path.join(folder, target)):
            problems.append(f"{path} links to {link}, but there is no such page")
        elif target in pages and anchor not in pages[target].anchors:
            problems.append(f"{path} links to {link}, but that page has no such section")
    return list(dict.fromkeys(problems))
