"""Builds the documentation's site: build.py ROOT SITE ARCHIVE...

ROOT is the repository, whose Markdown files become the guides; each ARCHIVE is what docc made of one module, the first
being the start page. The site needs no server and loads nothing from elsewhere. Prints dead links and exits with 1 when
there are any.
"""

import glob
import json
import os
import re
import shutil
import sys
import urllib.parse

from guides import Guide, render
from links import dead_links
from markup import breakable, escape
from reference import PLAIN_CONFORMANCES, Reference, Writer

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = """<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="stylesheet" href="{up}style.css">
<link rel="icon" href="data:,">
<script>const siteRoot = "{up}";</script>
<script src="{up}symbols.js" defer></script>
<script src="{up}search.js" defer></script>
</head>
<body>
<header>
<a class="home" href="{up}index.html">LATNetworking</a>
<div class="search">
<input id="search" type="search" placeholder="Search ( / )" aria-label="Search" autocomplete="off" spellcheck="false">
<ol id="results" hidden></ol>
</div>
<label class="menu" for="menu">Contents</label>
</header>
<input id="menu" type="checkbox" hidden>
<nav class="site" aria-label="Contents">
{navigation}</nav>
<main>
{body}</main>
{contents}</body>
</html>
"""


class Site:
    def __init__(self, root, site, archives):
        self.root, self.site = root, site
        self.reference = Reference(archives)
        self.guides = {guide.source: guide for guide in map(lambda source: Guide(root, source), self.guide_sources())}

    def guide_sources(self):
        """README, the pages in the order in which README links to them, the other pages, CONTRIBUTING and CHANGELOG."""
        with open(os.path.join(self.root, "README.md"), encoding="utf-8") as file:
            linked = re.findall(r"\]\(([\w./-]+\.md)", file.read())
        last = ["CONTRIBUTING.md", "CHANGELOG.md"]
        present = (
            ["README.md", "README.zh-CN.md"]
            + [source for source in linked if source not in last]
            + sorted(
                os.path.relpath(path, self.root) for path in glob.glob(os.path.join(self.root, "Documentation", "*.md"))
            )
        )
        return [source for source in dict.fromkeys(present + last) if os.path.isfile(os.path.join(self.root, source))]

    def build(self):
        shutil.rmtree(self.site, ignore_errors=True)
        os.makedirs(self.site)
        for name in ("style.css", "search.js"):
            shutil.copy(os.path.join(HERE, name), self.site)
        for node in self.reference.pages():
            self.write_node(node)
        for guide in self.guides.values():
            self.write_guide(guide)
        with open(os.path.join(self.site, "symbols.js"), "w", encoding="utf-8") as file:
            file.write(
                "const symbols = " + json.dumps(self.entries(), ensure_ascii=False, separators=(",", ":")) + ";\n"
            )

    def relative(self, page):
        """A function that turns an address of the site into one relative to the page."""
        folder = os.path.dirname(page)

        def to(address):
            path, _, anchor = address.partition("#")
            if path == page and anchor:
                return "#" + urllib.parse.quote(anchor)
            return urllib.parse.quote(os.path.relpath(path, folder or ".")) + (
                "#" + urllib.parse.quote(anchor) if anchor else ""
            )

        return to

    def write(self, address, title, body, contents, module, language="en"):
        relative = self.relative(address)
        if contents:
            top = min(level for level, _, _ in contents)
            items = "".join(
                f'<li class="level{level - top}"><a href="#{urllib.parse.quote(anchor)}">{text}</a></li>\n'
                for level, text, anchor in contents
            )
            # The list is a column where there is room for one; otherwise it is folded above the text.
            body = f'<details class="page"><summary>On this page</summary><ul>\n{items}</ul></details>\n{body}'
            contents = (
                f'<nav class="page" aria-label="On this page">\n<h2>On this page</h2>\n<ul>\n{items}</ul>\n</nav>\n'
            )
        path = os.path.join(self.site, address)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                PAGE.format(
                    title=escape(title),
                    up="../" * address.count("/"),
                    body=body,
                    contents=contents or "",
                    navigation=self.navigation(address, module, relative),
                    language=language,
                )
            )

    def navigation(self, address, module, relative):
        """The list at the side: the guides, the modules, and the groups of one module, the current page marked."""

        def entry(target, text):
            current = ' aria-current="page"' if target == address else ""
            return f'<li><a href="{escape(relative(target))}"{current}>{text}</a></li>\n'

        def group(title, entries):
            is_open = (
                " open" if 'aria-current="page"' in entries or (title == "Guides" and address == "index.html") else ""
            )
            return f"<details{is_open}><summary>{escape(title)}</summary><ul>\n{entries}</ul></details>\n"

        parts = [group("Guides", "".join(entry(guide.address, escape(guide.title)) for guide in self.guides.values()))]
        for node in self.reference.modules:
            parts.append(f'<ul class="module">{entry(node.address, escape(node.title))}</ul>\n')
            if node is not module:
                continue
            for title, nodes in self.reference.members(node):
                entries = "".join(entry(child.address, breakable(child.title)) for child in nodes if child.is_page)
                parts.append(group(title, entries) if entries else "")
        return "".join(parts)

    def write_node(self, node):
        writer = Writer(self.reference, node, self.relative(node.address))
        module = next(module for module in self.reference.modules if module.path[0] == node.path[0])
        contents = []
        kind = f'<p class="kind">{escape(node.metadata.get("roleHeading", ""))} · {escape(node.path[0])}</p>\n'
        body = ["" if node is module else kind, f"<h1>{breakable(node.title)}</h1>\n", writer.body(node)]
        for section in node.sections:
            if section["kind"] == "content":
                contents += [
                    (block["level"], escape(block["text"]), block["anchor"])
                    for block in section["content"]
                    if block["type"] == "heading" and block["anchor"].lower() not in ("overview", "discussion")
                ]
        body += self.relations(node, writer)
        for index, (title, nodes) in enumerate(self.reference.members(node)):
            anchor = f"group-{index}"
            body.append(f'<h2 id="{anchor}">{escape(title)}</h2>\n')
            contents.append((2, escape(title), anchor))
            own = [child for child in nodes if not child.is_page and child.parent is node]
            listed = [child for child in nodes if child not in own]
            body.append(writer.rows(listed) if listed else "")
            for child in own:
                anchor = child.address.split("#")[1]
                contents.append((3, breakable(child.name), anchor))
                body.append(
                    f'<section class="member">\n<h3 id="{anchor}"><a href="#{anchor}">{breakable(child.name)}</a></h3>\n'
                    f"{writer.body(child, level=2)}{self.defaults(child, writer)}</section>\n"
                )
        self.write(
            node.address,
            f"{node.title} · {node.path[0]}" if node.kind != "module" else node.title,
            "".join(body),
            contents,
            module,
        )

    def defaults(self, requirement, writer):
        """The default implementations of a protocol's requirement."""
        for section in requirement.content.get("defaultImplementationsSections", []):
            nodes = [self.reference.nodes[identifier] for identifier in section["identifiers"]]
            parts = [
                f'<div id="{node.address.split("#")[1]}">\n{writer.body(node, level=2, is_declared=False)}</div>\n'
                for node in nodes
                if node.address.split("#")[0] == requirement.address.split("#")[0]
            ]
            if parts:
                return "<h4>Default implementation</h4>\n" + "".join(parts)
        return ""

    def relations(self, node, writer):
        """What the type conforms to, and the articles that mention it."""
        for section in node.content.get("relationshipsSections", []):
            titles = []
            for identifier in section["identifiers"]:
                other = self.reference.nodes.get(identifier)
                name = node.content["references"].get(identifier, {}).get("title", "")
                if name not in PLAIN_CONFORMANCES:
                    code = f'<code>{escape(name.removeprefix("Swift."))}</code>'
                    titles.append(f'<a href="{writer.href(other)}">{code}</a>' if other else code)
            if titles:
                yield f'<p class="relation">{escape(section["title"].capitalize())}: {", ".join(titles)}</p>\n'
        for section in node.sections:
            if section["kind"] == "mentions":
                others = [self.reference.nodes[identifier] for identifier in section["mentions"]]
                links = ", ".join(f'<a href="{writer.href(other)}">{escape(other.title)}</a>' for other in others)
                yield f'<p class="relation">Mentioned in: {links}</p>\n'

    def write_guide(self, guide):
        relative, folder = self.relative(guide.address), os.path.dirname(guide.source)
        writer = Writer(self.reference, None, relative)

        def source_of(link):
            return os.path.normpath(os.path.join(folder, urllib.parse.unquote(link.partition("#")[0])))

        def title_of(link):
            other = self.guides.get(source_of(link))
            return other and other.title

        def address_of(link):
            if re.match(r"[a-z]+:|#", link):
                return link
            source, anchor = source_of(link), link.partition("#")[2]
            file = os.path.join(self.root, source)
            if source in self.guides:
                return relative(self.guides[source].address + ("#" + urllib.parse.unquote(anchor) if anchor else ""))
            if not os.path.exists(file):
                return link
            if not source.lower().endswith((".svg", ".png", ".jpg")):
                return None
            target = os.path.join("images", os.path.basename(source))
            os.makedirs(os.path.join(self.site, "images"), exist_ok=True)
            shutil.copy(file, os.path.join(self.site, target))
            return relative(target)

        contents = [(level, escape(text), anchor) for level, text, anchor in guide.headings if level <= 3]
        language = "zh-CN" if ".zh-CN." in guide.source else "en"
        self.write(
            guide.address,
            f"{guide.title} · LATNetworking",
            render(guide, address_of, title_of, writer.code_address),
            contents,
            self.reference.modules[0],
            language,
        )

    def entries(self):
        """What the search finds: name, kind, owner, address and first sentence of all symbols, pages and headings."""
        entries = []
        # A page does not list what DocC leaves out of it, such as a default implementation of an initializer of Codable.
        listed = {
            id(member) for page in self.reference.pages() for _, group in self.reference.members(page) for member in group
        }
        for node in sorted(
            self.reference.nodes.values(), key=lambda node: (not node.is_page, len(node.title), node.title)
        ):
            if node.address and not node.is_group and node.kind != "extension" and (node.is_page or id(node) in listed):
                plain = "".join(self.plain(piece, node) for piece in node.content.get("abstract", []))
                where = ".".join([node.path[0]] + ([] if node.is_page else node.names[:-1]))
                entries.append([node.name, node.metadata.get("roleHeading", ""), where, node.address, plain])
        for guide in self.guides.values():
            entries.append([guide.title, "Guide", "", guide.address, ""])
            entries += [
                [text, "Guide", guide.title, f"{guide.address}#{anchor}", ""] for _, text, anchor in guide.headings
            ]
        return entries

    def plain(self, piece, node):
        if piece["type"] == "reference":
            return piece.get("overridingTitle") or node.content["references"].get(piece["identifier"], {}).get(
                "title", ""
            )
        return (
            piece.get("text")
            or piece.get("code")
            or "".join(self.plain(inner, node) for inner in piece.get("inlineContent", []))
        )


root, folder, *archives = sys.argv[1:]
site = Site(root, folder, archives)
site.build()
dead = dead_links(folder, [entry[3] for entry in site.entries()])
print("\n".join(dead), end="\n" if dead else "")
sys.exit(1 if dead else 0)
