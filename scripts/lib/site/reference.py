"""Reads DocC's archives and renders their symbols and articles as HTML.

An archive has one JSON file for each symbol. Here a type is one page with all its members, and an article is a page.
"""

import json
import os
import re

from markup import breakable, declaration, escape, highlight

# What has a page of its own; everything else is part of its parent's page.
PAGES = {"module", "class", "struct", "enum", "protocol", "typealias", "actor", "extension", None}
# Conformances of nearly every type, which say nothing to a reader.
PLAIN_CONFORMANCES = {"Swift.Copyable", "Swift.Escapable", "Swift.SendableMetatype"}
# Types that share their name with an HTTP field. In a text, the name as `code` means the field.
FIELD_NAMES = {"Cookie"}


class Node:
    """A symbol or an article. `path` are the names from the module down, `address` is its place in the site."""

    def __init__(self, content):
        self.content = content
        self.metadata = content["metadata"]
        self.identifier = content["identifier"]["url"]
        self.path = self.identifier.split("/documentation/", 1)[1].split("/")
        self.kind = self.metadata.get("symbolKind")
        self.title = self.metadata["title"]
        # Default implementations, and a type of another module: both are parts of the page above them.
        self.is_group = self.metadata["role"] == "collectionGroup" or (
            self.kind == "extension" and self.metadata["role"] == "symbol"
        )
        self.is_page = self.kind in PAGES and not self.is_group
        self.parent = None
        self.address = None

    @property
    def names(self):
        """The path without what DocC adds to tell names apart, as a reader would write it: NetworkError.Kind.dns."""
        return [re.match(r"\w+|.*", name)[0] for name in self.path[1:]]

    @property
    def name(self):
        """The title without its owner: DocC puts the type before an enumeration's case."""
        return self.title if self.is_page else self.title.removeprefix(".".join(self.names[:-1]) + ".")

    @property
    def sections(self):
        return self.content.get("primaryContentSections", [])


class Reference:
    """All symbols and articles of several archives. The first archive's module is the start page of the site."""

    def __init__(self, archives):
        self.nodes, self.modules = {}, []
        for archive in archives:
            for folder, _, files in os.walk(os.path.join(archive, "data")):
                for name in sorted(file for file in files if file.endswith(".json")):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        node = Node(json.load(file))
                    self.nodes[node.identifier] = node
                    if node.kind == "module":
                        self.modules.append(node)
        self.place()
        self.symbols = {
            node.metadata["externalID"]: node for node in self.nodes.values() if node.metadata.get("externalID")
        }
        self.names = self.by_name()

    def place(self):
        """Gives every node its parent and its address."""
        taken = set()
        for node in sorted(self.nodes.values(), key=lambda node: (len(node.path), node.identifier)):
            above = node.identifier.rsplit("/", 1)[0]
            node.parent = self.nodes.get(above)
            if node.parent and node.parent.is_group:
                node.parent = node.parent.parent
            if node is self.modules[0]:
                node.address = "index.html"
            elif node.kind == "module":
                node.address = f"{node.path[0]}/index.html"
            elif node.is_page:
                node.address = f"{node.path[0]}/{'.'.join(node.names)}.html"
            elif node.is_group and node.parent:
                node.address = node.parent.address
            elif node.parent:
                anchor = re.sub(r"[^A-Za-z0-9]+", "-", node.path[-1]).strip("-") or f"op-{ord(node.path[-1][0])}"
                page = node.parent.address.split("#")[0]
                while f"{page}#{anchor}" in taken:
                    anchor += "-"
                node.address = f"{page}#{anchor}"
            taken.add(node.address)

    def by_name(self):
        """Names as text has them, like NetworkError.Kind, with their nodes. Of equal names the first module's wins."""
        names, modules = {}, [module.path[0] for module in self.modules]
        for node in sorted(
            self.nodes.values(), key=lambda node: (modules.index(node.path[0]), not node.is_page, node.identifier)
        ):
            if node.kind and node.kind != "extension" and not node.is_group and node.title not in FIELD_NAMES:
                # Below an extended type the first name is that of its module.
                extends = node.parent is not None and node.parent.kind == "extension"
                names.setdefault(".".join(node.names[1:] if extends else node.names) or node.title, node)
        return names

    def pages(self):
        return [node for node in self.nodes.values() if node.is_page]

    def members(self, node):
        """The groups of a page: a title, and the nodes in it. Groups that are nodes themselves are unfolded."""
        for section in node.content.get("topicSections", []):
            plain = []
            for identifier in section["identifiers"]:
                child = self.nodes.get(identifier)
                if child is None:
                    continue
                if child.is_group:
                    yield child.title, [inner for _, group in self.members(child) for inner in group]
                else:
                    plain.append(child)
            if plain:
                yield section.get("title", ""), plain


class Writer:
    """Renders nodes for one page, to which all links are relative."""

    def __init__(self, reference, page, relative):
        self.reference, self.page, self.relative = reference, page, relative

    def href(self, node):
        return escape(self.relative(node.address))

    def code_address(self, text):
        """The address of the symbol with this name, unless it is this page."""
        node = self.reference.names.get(re.sub(r"\(.*\)$", "", text).replace("/", "."))
        return self.href(node) if node and node is not self.page else None

    def token_address(self, token):
        node = self.reference.nodes.get(token.get("identifier")) or self.reference.symbols.get(
            token.get("preciseIdentifier")
        )
        return self.href(node) if node and token["kind"] == "typeIdentifier" else None

    def inline(self, pieces, references):
        return "".join(self.piece(piece, references) for piece in pieces)

    def piece(self, piece, references):
        kind = piece["type"]
        if kind == "text":
            return escape(piece["text"])
        if kind == "codeVoice":
            address, code = self.code_address(piece["code"]), f'<code>{escape(piece["code"])}</code>'
            return f'<a href="{address}">{code}</a>' if address else code
        if kind in ("emphasis", "strong", "strikethrough", "newTerm"):
            tag = {"emphasis": "em", "strong": "strong", "strikethrough": "s", "newTerm": "em"}[kind]
            return f'<{tag}>{self.inline(piece["inlineContent"], references)}</{tag}>'
        if kind == "reference":
            return self.link(piece, references.get(piece["identifier"], {}))
        raise ValueError(
            f"DocC wrote inline content of the type {kind}, which scripts/lib/site/reference.py does not know"
        )

    def link(self, piece, reference):
        node = self.reference.nodes.get(piece["identifier"])
        title = piece.get("overridingTitle") or reference.get("title", "")
        if node is None and reference.get("type") == "link":
            return f'<a href="{escape(reference["url"])}">{escape(title)}</a>'
        text = f"<code>{escape(title)}</code>" if node is None or node.kind else escape(title)
        return text if node is None else f'<a href="{self.href(node)}">{text}</a>'

    def blocks(self, content, references, level=0):
        """The HTML of blocks; `level` moves headings down, inside of a member."""
        return "".join(self.block(block, references, level) for block in content)

    def block(self, block, references, level):
        kind = block["type"]
        if kind == "paragraph":
            return f'<p>{self.inline(block["inlineContent"], references)}</p>\n'
        if kind == "heading":
            anchor = f' id="{escape(block["anchor"])}"' if level == 0 else ""
            size = min(block["level"] + level, 6)
            return f'<h{size}{anchor}>{escape(block["text"])}</h{size}>\n'
        if kind == "codeListing":
            return highlight("\n".join(block["code"]), block.get("syntax"))
        if kind in ("unorderedList", "orderedList"):
            tag = "ul" if kind == "unorderedList" else "ol"
            items = "".join(f'<li>{self.blocks(item["content"], references, level)}</li>\n' for item in block["items"])
            return f"<{tag}>\n{items}</{tag}>\n"
        if kind == "aside":
            name = f'<strong>{escape(block.get("name", block["style"]))}</strong> '
            body = self.blocks(block["content"], references, level)
            return f'<aside>{body.replace("<p>", "<p>" + name, 1)}</aside>\n'
        if kind == "table":
            rows = [
                "".join(f"<{tag}>{self.cell(cell, references)}</{tag}>" for cell in row)
                for index, row in enumerate(block["rows"])
                for tag in ["th" if index == 0 else "td"]
            ]
            return '<div class="table"><table>' + "".join(f"<tr>{row}</tr>\n" for row in rows) + "</table></div>\n"
        raise ValueError(f"DocC wrote a block of the type {kind}, which scripts/lib/site/reference.py does not know")

    def cell(self, blocks, references):
        return "<br>".join(self.inline(block["inlineContent"], references) for block in blocks)

    def body(self, node, level=0, is_declared=True):
        """The text of a node with its parameters, and its declaration if `is_declared`."""
        references, parts = node.content["references"], []
        abstract = f'<p class="abstract">{self.inline(node.content.get("abstract", []), references)}</p>\n'
        for section in node.sections:
            if section["kind"] == "declarations" and is_declared:
                parts += [declaration(item["tokens"], self.token_address) for item in section["declarations"]]
        parts.insert(0 if level == 0 else len(parts), abstract if node.content.get("abstract") else "")
        for section in node.sections:
            if section["kind"] == "parameters":
                rows = "".join(
                    f'<dt><code>{escape(item["name"])}</code></dt><dd>{self.blocks(item["content"], references)}</dd>\n'
                    for item in section["parameters"]
                )
                parts.append(f'<dl class="parameters">{rows}</dl>\n')
            elif section["kind"] == "content":
                content = section["content"]
                if content and content[0].get("anchor", "").lower() in ("overview", "discussion"):
                    content = content[1:]
                parts.append(self.blocks(content, references, level))
        return "".join(parts)

    def rows(self, nodes):
        """A list of links, each with the first sentence of what it leads to."""
        rows = []
        for node in nodes:
            title = breakable(node.title if node.is_page else ".".join(node.names[:-1] + [node.name]))
            title = f"<code>{title}</code>" if node.kind else title
            abstract = self.inline(node.content.get("abstract", []), node.content["references"])
            rows.append(f'<dt><a href="{self.href(node)}">{title}</a></dt><dd>{abstract}</dd>\n')
        return f'<dl class="topics">\n{"".join(rows)}</dl>\n'
