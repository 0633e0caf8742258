"""Find markup inside lines: HTML tags, LaTeX commands and environments, and Markdown emphasis, code and links.

Only markup that is unlikely to be anything else is taken: tags and commands are looked up by name, so that ``<unk>``,
``a < b``, ``C:\\Users`` and ``A* search`` remain text. Regular expressions never look further than the next character
that could start the same construct, and nested constructs are matched with stacks, so that the time is linear.
"""

import re
from bisect import bisect_right
from collections import Counter

SEPARATOR = "\u2029"
"""Ends a sentence in the normalized text."""


def name_set(names: str) -> frozenset[str]:
    """Return the set of names that are separated by spaces."""
    return frozenset(names.split())


_BLOCK_TAGS = name_set(
    "address article aside blockquote body caption center dd details div dl dt figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 head header hr html li link main meta nav ol option p pre script section select style summary table "
    "tbody td tfoot th thead title tr ul"
)
# Not <s>, which is a token of language models.
_INLINE_TAGS = name_set(
    "a abbr b big br button cite code del dfn em font i img input ins kbd label mark q samp small span strike strong "
    "sub sup tt u var wbr"
)
_RAW_TAGS = name_set("script style")
_TAG_REGIONS = {
    **dict.fromkeys(("pre", "script", "style"), "code"),
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "heading"),
    "table": "table",
}

# Commands whose argument is text of the sentence around it, and those whose argument is a block of its own:
_STYLES = name_set(
    "emph mbox text textbf textit textmd textnormal textrm textsc textsf textsl texttt textup underline url uline"
)
_PARTS = name_set(
    "abstract author caption chapter date footnote paragraph part section subparagraph subsection subsubsection title"
)
# Commands whose arguments are not text:
_REFERENCES = name_set(
    "addbibresource autoref bibitem bibliography bibliographystyle cite citealp citealt citeauthor citep citet "
    "citeyear citeyearpar cline cref Cref documentclass eqref footcite href hspace include includegraphics index input "
    "label newcommand nocite pageref parencite ref renewcommand setcounter setlength textcite usepackage vspace begin "
    "end"
)
_WITHOUT_ARGUMENT = name_set(
    "and And AND appendix bfseries bigskip bottomrule centering clearpage footnotesize hfill hline huge item itshape "
    "large Large LARGE maketitle medskip midrule newline newpage noindent normalsize par quad qquad scriptsize small "
    "smallskip tableofcontents tiny toprule"
)
_BREAKING = name_set(
    "addbibresource and And AND appendix begin bibitem bibliography bottomrule clearpage documentclass end hline item "
    "maketitle midrule newcommand newpage par tableofcontents toprule usepackage"
)
_EQUATIONS = name_set(
    "equation equation* align align* gather gather* eqnarray eqnarray* multline multline* displaymath"
)
_ENVIRONMENTS = {
    **dict.fromkeys(("verbatim", "verbatim*", "lstlisting", "minted", "Verbatim"), "code"),
    **dict.fromkeys(_EQUATIONS, "code"),
    **dict.fromkeys(("tabular", "tabular*", "tabularx", "tabulary", "longtable", "array"), "table"),
    "thebibliography": "references",
}

_TOKEN = re.compile(
    r"""
    < (?P<close>/?) (?P<tag>[a-zA-Z][a-zA-Z0-9]*+)
      (?: \s++ [\w:-]++ \s*+ = \s*+ (?: "[^"<>]*+" | '[^'<>]*+' | [^\s"'<>=`]++ ) )*+ \s*+ /?+ >
  | (?P<url> (?:https?://|www\.) [^\s<>{}"|\\]*+ (?: \\[_%&\#] [^\s<>{}"|\\]*+ )*+ )  # with escapes, a single word
  | (?P<comment> <!-- )
  | (?P<doctype> <![dD][oO][cC][tT][yY][pP][eE] [^<>]*+ > | <\?xml [^<>]*+ > | &(?:nbsp|ensp|emsp|thinsp); )
  | \\ (?P<command>[a-zA-Z]++) \*?+
  | (?<![:\\]) \\ (?= [%&$\#_{}] ) (?P<escape>)
  | \\\\ (?P<newline>) (?: \[ [^\[\]\n]*+ \] )?+
    """,
    re.VERBOSE,
)
_OPTION = re.compile(r"\[[^\[\]]*+\]")
_BRACE = re.compile(r"(?<!\\)[{}]")
_TIE = re.compile(r"(?<=[\w.)\]}])~(?=[\w(\\])")
_CELL = re.compile(r"(?<!\\)&(?!#?\w{1,8};)")
# A comment of LaTeX, with its line break if it is the whole line. A percent sign after a number stays.
_COMMENT = re.compile(r"(?m)^[ \t]*+%[^\r\n]*+(?:\r\n|[\r\n])?+|(?<=[ \t])(?<!\d[ \t])%[^\r\n]*+|(?<=[^\d\s\\])%$")
# What is left in a file of LaTeX: spacing such as "\\,", commands that are not known, and braces. The name of a command
# without an argument stays: "\\bert{}" and "$\\alpha$" stand for text.
_LATEX_REST = re.compile(r"\\[,;:!]|\\[a-zA-Z]++(?=\{[^}])|\\(?=[a-zA-Z])|(?<!\\)[{}]")
_LATEX_FILE = re.compile(r"\\(?:documentclass\b|begin\{document\}|(?:sub){0,2}section\*?\{|chapter\*?\{)")
# In a page of HTML, all tags and entities are markup. "&amp;" leaves an ampersand.
_PAGE = re.compile(r"(?i:<!doctype html|<html[\s>]|<body[\s>])")
_ANY_TAG = re.compile(r"</?[a-zA-Z][^<>]*+>")
# Not those of letters, such as "&eacute;", which are parts of words.
_ENTITY = re.compile(
    r"&(?:amp|lt|gt|quot|apos|[mn]dash|hellip|[lr][sd]quo|bull|middot|shy|times|\#(?:3[4-9]|6[02]|160|8[02]\d\d)|\#x0*+20[0-9a-f]{2});"
)
# In an article in JATS, the XML of PubMed Central, all tags but those within sentences separate blocks.
_JATS = re.compile(r"<!DOCTYPE article\b|<article\s[^<>]*\b(?:article-type|dtd-version)=")
_JATS_TAG = re.compile(r"<[/?]?([a-zA-Z][\w:.-]*+)[^<>]*+>")
_JATS_INLINE = name_set(
    "bold email ext-link inline-formula italic monospace named-content sc styled-content sub sup underline uri xref"
)
_MAX_BEFORE_PAGE = 2000
_LONGEST_ARGUMENT = 2000
# A line of the text, an item of a list, a caption: emphasis and code do not extend over line breaks.
_MARKDOWN = re.compile(
    r"""
    (?<![\w*]) (?P<a>\*\*) (?=[^\s*]) [^*\r\n]*+ (?<=\S) (?P<b>\*\*) (?![\w*])
  | (?<![\w*]) (?P<c>\*) (?=[^\W\d_]) [^*\r\n]*+ (?<=[\w.!?)]) (?P<d>\*) (?![\w*])
  | (?<![\w`]) (?P<e>`) (?=[^\s`]) [^`\r\n]*+ (?<=\S) (?P<f>`) (?![\w`'])
  | (?<!\w) (?P<i>_) (?=[^\W\d_]{2}) (?:[^\W_]|[ -])*+ (?<=[^\W_]) (?P<j>_) (?!\w)
  | (?P<g>!?\[) (?=[^\s\[\]]) [^\[\]\r\n]*+ (?P<h>\] \( (?= [^\s()\[\]#/.:]*+ [#/.:] ) [^\s()\[\]]*+ \) )
    """,
    re.VERBOSE,
)
_MARKDOWN_SIGNS = ("*", "`", "](", "_")
# Characters of all tokens but web addresses, which only matter around the others.
_TOKEN_SIGNS = ("<", "\\", "&")
_MARKDOWN_GROUPS = (("a", "b"), ("c", "d"), ("e", "f"), ("g", "h"), ("i", "j"))


class Canvas:
    """A copy of a text in which markup is replaced by spaces and separators. Its length does not change.

    Attributes:
        is_latex: Whether the text has LaTeX commands.
        regions: Kind, start and end of the outermost regions that are headings, code, tables or references.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_latex = False
        self.regions: list[tuple[str, int, int]] = []
        # Made when something changes, because most texts have no markup.
        self._chars: list[str] = []
        self._hidden = bytearray()

    def hide(self, start: int, end: int, *, breaks: bool = False) -> None:
        """Take characters as markup; ``breaks``: a sentence ends here."""
        self._prepare()
        self._hidden = self._hidden or bytearray(len(self.text))
        self._chars[start:end] = " " * (end - start)
        self._hidden[start:end] = b"\1" * (end - start)
        if breaks:
            self._chars[start] = SEPARATOR

    def hide_rest(self, pattern: re.Pattern[str], keep_first: str = "") -> None:
        """Hide the matches that are not hidden yet. ``keep_first`` is a match whose first character is kept."""
        for match in pattern.finditer(self.text):
            if not (self._hidden and self._hidden[match.start()]):
                self.hide(match.start() + (match[0] == keep_first), match.end())

    def put(self, at: int, char: str) -> None:
        """Replace a space or line break."""
        self._prepare()
        self._chars[at] = char

    def skip(self, start: int, end: int) -> None:
        """Leave out a part of the text."""
        if start < end:
            self._prepare()
            self._chars[start:end] = SEPARATOR + " " * (end - start - 1)

    def _prepare(self) -> None:
        self._chars = self._chars or list(self.text)

    def __str__(self) -> str:
        return "".join(self._chars) if self._chars else self.text

    def markup(self) -> list[tuple[int, int]]:
        """Return the half-open offsets of the markup, in ascending order."""
        return [match.span() for match in re.finditer(rb"\x01++", self._hidden)]


def hide_markup(canvas: Canvas, raw: list[tuple[int, int]]) -> None:
    """Hide the markup of a text, except in the ``raw`` parts, which are given in ascending order."""
    scan = _Scan(canvas)
    at = 0
    for start, end in (*raw, (len(canvas.text), len(canvas.text))):
        scan.part(at, start)
        at = end
    scan.finish()


class _Scan:
    """One pass over the tags and commands of a text."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._text = canvas.text
        self._has_tokens = any(sign in self._text for sign in _TOKEN_SIGNS)
        self._open: list[tuple[str, int]] = []  # names and starts of open elements and environments
        self._n_open: Counter[str] = Counter()
        self._found: dict[str, int] = {}  # last positions of strings; -1 if the rest of the text has none
        self._braces: dict[int, int] | None = None
        self._last_break = -1  # end of the last <br>
        self._newlines: list[tuple[int, int]] = []  # double backslashes

    def part(self, start: int, end: int) -> None:
        at = start
        while self._has_tokens and (match := _TOKEN.search(self._text, at, end)):
            at = max(match.end(), min(self._token(match), end))
            if at > match.end():  # arguments or code were passed over
                self._markdown(start, match.start())
                start = at
        self._markdown(start, end)

    def _markdown(self, start: int, end: int) -> None:
        if not any(self._text.find(sign, start, end) >= 0 for sign in _MARKDOWN_SIGNS):
            return
        for found in _MARKDOWN.finditer(self._text, start, end):
            for first, last in _MARKDOWN_GROUPS:
                if found[first]:
                    self._canvas.hide(*found.span(first))
                    self._canvas.hide(*found.span(last))

    def _token(self, match: re.Match[str]) -> int:
        """Hide a token, and return where the scan goes on."""
        start, end = match.span()
        if match["tag"]:
            return self._tag(match["tag"].lower(), bool(match["close"]), start, end)
        if match["comment"]:
            close = self._find("-->", end)
            if close is not None:
                self._canvas.hide(start, close + len("-->"))
                return close + len("-->")
        elif match["url"]:
            return end
        elif match["doctype"]:
            self._canvas.hide(start, end)
        elif match["command"]:
            return self._command(match["command"], start, end)
        elif match["escape"] is not None:
            self._canvas.hide(start, end)
        else:
            self._newlines.append((start, end))
        return end

    def _tag(self, name: str, closes: bool, start: int, end: int) -> int:
        if name not in _BLOCK_TAGS and name not in _INLINE_TAGS:
            return end
        breaks = name in _BLOCK_TAGS
        if name == "br":
            # Two line breaks in a row separate paragraphs.
            breaks = self._last_break >= 0 and not self._text[self._last_break : start].strip()
            self._last_break = end
        self._canvas.hide(start, end, breaks=breaks)
        if name in _TAG_REGIONS:
            if closes:
                self._leave(f"<{name}", start)
            else:
                self._enter(f"<{name}", end)
        if name in _RAW_TAGS and not closes and (close := self._find(f"</{name}", end)) is not None:
            self._canvas.hide(end, close)
            return close
        return end

    def _command(self, name: str, start: int, end: int) -> int:
        text = self._text
        name = "index" if name.startswith("index") else name  # also those of packages
        if name in _WITHOUT_ARGUMENT:
            if start and (text[start - 1].isalnum() or text[start - 1] == ":"):
                return end
            self._canvas.is_latex = True
            self._canvas.hide(start, end, breaks=name in _BREAKING)
            return end
        is_text = name in _STYLES or name in _PARTS
        if (not is_text and name not in _REFERENCES) or text[end : end + 1] not in ("{", "["):
            return end
        self._canvas.is_latex = True
        if not is_text:
            return self._without_text(name, start, end)
        if option := _OPTION.match(text, end):
            end = option.end()
        if text[end : end + 1] != "{":
            return end
        close = self._closing_brace(end)
        self._canvas.hide(start, end + 1, breaks=name in _PARTS)
        if close is not None:
            self._canvas.hide(close, close + 1, breaks=name in _PARTS)
            if name.endswith(("chapter", "section")):
                self._canvas.regions.append(("heading", end + 1, close))
        return end + 1

    def _without_text(self, name: str, start: int, end: int) -> int:
        """Hide a command and its arguments, and return the end of the arguments."""
        argument = ""
        while end < len(self._text):
            if option := _OPTION.match(self._text, end):
                end = option.end()
                continue
            close = self._closing_brace(end) if self._text[end] == "{" else None
            if close is None or close - end > _LONGEST_ARGUMENT:
                break
            argument = argument or self._text[end + 1 : close]
            end = close + 1
            if name == "href":
                break
        self._canvas.hide(start, end, breaks=name in _BREAKING)
        if name == "href" and (close := self._closing_brace(end)) is not None:
            self._canvas.hide(end, end + 1)
            self._canvas.hide(close, close + 1)
        if argument in _ENVIRONMENTS and name == "end":
            self._leave(argument, start)
        elif argument in _ENVIRONMENTS and name == "begin":
            self._enter(argument, end)
            if _ENVIRONMENTS[argument] == "code" and argument not in _EQUATIONS:
                close = self._find(f"\\end{{{argument}}}", end)
                return end if close is None else close
        return end

    def _closing_brace(self, at: int) -> int | None:
        """Return the brace that closes the one at ``at``. All pairs are found at the first call."""
        if self._braces is None:
            self._braces = {}
            opened: list[int] = []
            for match in _BRACE.finditer(self._text):
                if match[0] == "{":
                    opened.append(match.start())
                elif opened:
                    self._braces[opened.pop()] = match.start()
        return self._braces.get(at)

    def _find(self, string: str, at: int) -> int | None:
        """Search for a string. The last result is kept, so that no part of the text is searched twice."""
        found = self._found.get(string, 0)
        if 0 <= found < at:
            found = self._found[string] = self._text.find(string, at)
        return None if found < 0 else found

    def _enter(self, name: str, at: int) -> None:
        self._open.append((name, at))
        self._n_open[name] += 1

    def _leave(self, name: str, at: int) -> None:
        """Close the innermost open region of this name, and with it those inside."""
        while self._n_open[name]:
            opened, start = self._open.pop()
            self._n_open[opened] -= 1
            if opened == name:
                kind = _ENVIRONMENTS.get(name) or _TAG_REGIONS[name.removeprefix("<")]
                regions = self._canvas.regions
                while regions and regions[-1][1] >= start:
                    regions.pop()  # inside this one
                regions.append((kind, start, at))
                return

    def finish(self) -> None:
        """Hide what depends on the whole text: comments, ties, line breaks and cells of LaTeX, all tags of pages."""
        canvas = self._canvas
        is_article = _JATS.search(self._text, 0, _MAX_BEFORE_PAGE) is not None
        for match in _JATS_TAG.finditer(self._text) if is_article else ():
            canvas.hide(*match.span(), breaks=match[1] not in _JATS_INLINE)
        if is_article and (first := self._text.find("<ref-list")) >= 0:
            canvas.regions.append(("references", first, max(first, self._text.rfind("</ref-list>"))))
        if is_article or _PAGE.search(self._text, 0, _MAX_BEFORE_PAGE):
            canvas.hide_rest(_ANY_TAG)
            canvas.hide_rest(_ENTITY, keep_first="&amp;")
        if not canvas.is_latex:
            return
        for match in _COMMENT.finditer(self._text):
            canvas.hide(*match.span())
        for match in _TIE.finditer(self._text):
            canvas.hide(*match.span())
        tables = [(start, end) for kind, start, end in canvas.regions if kind == "table"]
        for start, end in tables:
            for match in _CELL.finditer(self._text, start, end):
                canvas.hide(*match.span(), breaks=True)
        for start, end in self._newlines:
            table = bisect_right(tables, (start, end)) - 1
            canvas.hide(start, end, breaks=table >= 0 and start < tables[table][1])
        if _LATEX_FILE.search(self._text):
            canvas.hide_rest(_LATEX_REST)
