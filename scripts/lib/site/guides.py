"""Makes pages of the repository's Markdown files, which stay their only source."""

import os
import re

from markdown_it import MarkdownIt

from markup import escape, highlight


class Guide:
    """A Markdown file: `title` and `headings` are plain text, `address` is its place in the site."""

    def __init__(self, root, source):
        self.source = source
        name = os.path.splitext(os.path.basename(source))[0]
        folder = os.path.dirname(source)
        # The README of a folder gets the folder's name.
        name = folder.replace("/", "-") if folder and name == "README" else name
        self.address = f"guides/{name}.html"
        with open(os.path.join(root, source), encoding="utf-8") as file:
            self.tokens = parser().parse(file.read())
        self.title, self.headings = name, []
        taken = set()
        for opening, inline in zip(self.tokens, self.tokens[1:]):
            if opening.type != "heading_open":
                continue
            text = "".join(child.content for child in inline.children if child.type in ("text", "code_inline"))
            anchor = unused(slug(text), taken)
            opening.attrSet("id", anchor)
            if opening.tag == "h1":
                # Both READMEs have the project's name as their title.
                self.title = name.replace(".zh-CN", " (中文)") if name.startswith("README") else text
            else:
                self.headings.append((int(opening.tag[1]), text, anchor))


def parser():
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def slug(text):
    """The anchor that GitHub gives to a heading, so that links between the files lead to the same place."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def unused(anchor, taken):
    number, free = 0, anchor
    while free in taken:
        number += 1
        free = f"{anchor}-{number}"
    taken.add(free)
    return free


def render(guide, address_of, title_of, code_address):
    """The HTML of a guide's body.

    `address_of` turns a link of the source into one of the site, or None where the site has no such page. `title_of`
    gives the title of the guide that a link leads to, which replaces the name of its file. `code_address` gives the
    page of a symbol that is written as `code`.
    """
    markdown = parser()

    def fence(self, tokens, index, options, env):
        return highlight(tokens[index].content, tokens[index].info.strip())

    def code(self, tokens, index, options, env):
        text, address = tokens[index].content, code_address(tokens[index].content)
        inside = env.get("links", 0)
        html = f"<code>{escape(text)}</code>"
        return f'<a href="{address}">{html}</a>' if address and not inside else html

    def link_open(self, tokens, index, options, env):
        address = address_of(tokens[index].attrGet("href"))
        env["links"] = 1
        text = tokens[index + 1]
        if text.type == "text" and text.content.endswith(".md"):
            text.content = title_of(tokens[index].attrGet("href")) or text.content
        return f'<a href="{escape(address)}">' if address else "<span>"

    def link_close(self, tokens, index, options, env):
        env["links"] = 0
        opening = index
        while tokens[opening].type != "link_open":
            opening -= 1
        return "</a>" if address_of(tokens[opening].attrGet("href")) else "</span>"

    def image(self, tokens, index, options, env):
        token = tokens[index]
        return f'<img src="{escape(address_of(token.attrGet("src")) or "")}" alt="{escape(token.content)}">'

    def html(self, tokens, index, options, env):
        def local(match):
            return f'{match[1]}="{escape(address_of(match[2]) or match[2])}"'

        return re.sub(r'\b(src|srcset|href)="([^"]*)"', local, tokens[index].content)

    for name, rule in {
        "fence": fence,
        "code_inline": code,
        "link_open": link_open,
        "link_close": link_close,
        "image": image,
        "html_block": html,
        "html_inline": html,
    }.items():
        markdown.add_render_rule(name, rule)
    body = markdown.renderer.render(guide.tokens, markdown.options, {})
    return body.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")
