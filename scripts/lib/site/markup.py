"""Small pieces of HTML that the reference and the guides share."""

import html
import re

import pygments
import pygments.lexers
from pygments.formatters import HtmlFormatter
from pygments.util import ClassNotFound

# Keywords that the Swift lexer of older versions of Pygments does not know.
NEW_KEYWORDS = [
    "actor",
    "any",
    "async",
    "await",
    "borrowing",
    "consuming",
    "each",
    "isolated",
    "nonisolated",
    "package",
    "some",
]
ALIASES = {"json5": "js", "jsonc": "js", "text": None, "": None, None: None}


def escape(text):
    return html.escape(text, quote=True)


def breakable(name):
    """The escaped name, which a browser may break after a colon, a dot, a slash or an opening parenthesis."""
    return re.sub(r"([:./(])(?=.)", r"\1<wbr>", escape(name))


def highlight(code, language):
    """The code as a block with highlighted tokens; a language that Pygments does not know stays plain."""
    language = ALIASES.get(language, language)
    try:
        lexer = pygments.lexers.get_lexer_by_name(language, stripnl=False) if language else None
    except ClassNotFound:
        lexer = None
    if lexer is None:
        return f"<pre><code>{escape(code)}</code></pre>\n"
    if language == "swift":
        lexer.add_filter("highlight", names=NEW_KEYWORDS, tokentype=pygments.token.Keyword)
    return f"<pre><code>{pygments.highlight(code, lexer, HtmlFormatter(nowrap=True))}</code></pre>\n"


def lines_of(tokens, width=92):
    """The texts of a declaration's tokens, with one parameter on each line when one line would be too long.

    Breaks inside the first parentheses only, which are those of the parameters.
    """
    if sum(len(token["text"]) for token in tokens) <= width or not any("(" in token["text"] for token in tokens):
        return [token["text"] for token in tokens]
    texts, depth, done, previous = [], 0, False, ""
    for token in tokens:
        text = ""
        for character in token["text"]:
            if done:
                text += character
                continue
            if character in ")]" or (character == ">" and previous != "-" and depth > 0):
                depth -= 1
                if depth == 0 and character == ")":
                    text, done = text.rstrip() + "\n", True
            if not (character == " " and text.endswith("\n    ")):
                text += character
            if character in "([" or (character == "<" and depth > 0):
                depth += 1
                if depth == 1 and character == "(":
                    text += "\n    "
            elif character == "," and depth == 1:
                text += "\n    "
            previous = character
        texts.append(text)
    return texts


def declaration(tokens, href):
    """A declaration as a block; `href` gives the address of a token's type, or None."""
    pieces = []
    for token, text in zip(tokens, lines_of(tokens)):
        piece, address = escape(text), href(token)
        kind = {
            "keyword": "k",
            "attribute": "k",
            "typeIdentifier": "t",
            "identifier": "n",
            "number": "mi",
            "string": "s",
        }
        if address:
            piece = f'<a class="t" href="{address}">{piece}</a>'
        elif token["kind"] in kind:
            piece = f'<span class="{kind[token["kind"]]}">{piece}</span>'
        pieces.append(piece)
    return f'<pre class="declaration"><code>{"".join(pieces)}</code></pre>\n'
