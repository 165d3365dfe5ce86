"""What each construct of HTML becomes, and what holds for every page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted.docs.html.convert import convert
from quickstarted.docs.html.inline import render
from quickstarted.docs.html.runs import Links, collect, quick_line
from quickstarted.docs.html.signs import Sign
from quickstarted.docs.html.tree import Element, Node

from tests.support.docs_judge import fences, hrefs, words

URL = "https://docs.test/a/b.html"

BLOCKS = [
    ("a paragraph's white space is folded", "<p> a\n  b&nbsp;c </p>", "a b c"),
    ("a line break stays one", "<p>a<br>b</p>", "a  \nb"),
    ("two line breaks separate paragraphs", "<p>a<br><br>b</p>", "a\n\nb"),
    ("text beside a block is a paragraph of its own", "a<div>b</div>c", "a\n\nb\n\nc"),
    ("emphasis keeps the spaces outside", "<p>a<b> b </b>c <i>d</i></p>", "a **b** c *d*"),
    ("nested emphasis is written once", "<p><b>a<strong>b</strong></b></p>", "**ab**"),
    ("empty emphasis leaves nothing", "<p>a<b> </b>b<i></i></p>", "a b"),
    ("struck text", "<p><del>a</del></p>", "~~a~~"),
    ("code with backquotes", "<p><code>a`b</code></p>", "``a`b``"),
    ("code in a link", '<p><a href="x"><code>f()</code></a></p>', "[`f()`](https://docs.test/a/x)"),
    (
        "a link inside code",
        '<p><code>Vec&lt;<a href="t">T</a>&gt;</code></p>',
        "`Vec<`[`T`](https://docs.test/a/t)`>`",
    ),
    ("powers and indices", "<p>x<sup>2</sup><sub>i</sub></p>", "x<sup>2</sup><sub>i</sub>"),
    ("a quotation in a line", "<p><q>a</q></p>", "\u201ca\u201d"),
    (
        "signs of Markdown in text are escaped",
        "<p>a*b* `c` [d](e) &lt;b&gt; _f_</p>",
        r"a\*b\* \`c\` [d\](e) \<b> \_f\_",
    ),
    ("a name with underscores is left alone", "<p>snake_case_name</p>", "snake_case_name"),
    ("a line that looks like a heading is escaped", "<p># a</p>", r"\# a"),
    ("a line that looks like an item is escaped", "<p>1. a<br>- b</p>", "1\\. a  \n\\- b"),
    ("a list is tight when its items are lines", "<ul><li>a</li><li><p>b</p></li></ul>", "- a\n- b"),
    ("a nested list", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>", "- a\n  - b\n- c"),
    ("an ordered list counts from its start", '<ol start="9"><li>a</li><li>b</li></ol>', "9. a\n10. b"),
    (
        "code in an item is indented with it",
        "<ol><li>Run:<pre>a\n\nb</pre></li><li>c</li></ol>",
        "1. Run:\n\n   ```\n   a\n\n   b\n   ```\n\n2. c",
    ),
    ("tasks", '<ul><li><input type="checkbox" checked> a</li></ul>', "- [x] a"),
    ("a term and its definition", "<dl><dt>a</dt><dd>b</dd></dl>", "- **a**\n\n  b"),
    (
        "a signature keeps its links and loses its italics",
        "<dl><dt>get(<em class='sig-param'>url</em>) <a href='s'>[source]</a></dt><dd>b</dd></dl>",
        "- get(url) [\\[source\\]](https://docs.test/a/s)\n\n  b",
    ),
    ("a quotation", "<blockquote><p>a</p><pre>b</pre></blockquote>", "> a\n>\n> ```\n> b\n> ```"),
    ("a rule", "a<hr>b", "a\n\n---\n\nb"),
    ("details with their summary", "<details><summary>S</summary>a</details>", "**S**\n\na"),
    (
        "a table without headings",
        "<table><tr><td>a<td>b</table>",
        "|  |  |\n| --- | --- |\n| a | b |",
    ),
    (
        "cells with a list, a break and a bar",
        "<table><tr><th>h<th>i<tr><td><ul><li>a<li>b</ul><td>c<br>d|e</table>",
        "| h | i |\n| --- | --- |\n| - a<br>- b | c<br>d\\|e |",
    ),
    (
        "cells that reach over others",
        "<table><tr><th>a<th>b<tr><td rowspan=2>c<td>d<tr><td>e<tr><td colspan=2>f</table>",
        "| a | b |\n| --- | --- |\n| c | d |\n|  | e |\n| f |  |",
    ),
    (
        "a table whose cells hold code is written cell by cell",
        "<table><tr><th>OS<th>Do<tr><td>Linux<td><pre>x</pre></table>",
        "**OS:**\n\nLinux\n\n**Do:**\n\n```\nx\n```",
    ),
    ("a table for layout", "<table><tr><td><h2>a</h2><p>b</table>", "## a\n\nb"),
    ("an image by its description", '<img src="i.png" alt="A [x]">', r"![A \[x\]](https://docs.test/a/i.png)"),
    ("an embedded page is a link", '<iframe src="/v" title="Video"></iframe>', "[Video](https://docs.test/v)"),
    ("an image in the page's own bytes has no address", '<img src="data:x" alt="logo">', "logo"),
    ("a heading without its permalink", '<h2 id="x">A<a href="#x">#</a></h2>', "## A"),
    ("a heading that links to itself", '<h2 id="x"><a href="#x">A</a></h2>', "## A"),
    ("a heading that links elsewhere", '<h2 id="x"><a href="#y">A</a></h2>', f"## [A]({URL}#y)"),
    ("a heading across elements is one line", "<h2><div>A</div><div>B</div></h2>", "## A B"),
    ("script, style and template are no text", "a<script>b</script><style>c</style><template>d</template>", "a"),
    ("hidden text is left out", "<p>a</p><p hidden>b</p><p style='display: none'>c</p><p aria-hidden=true>d</p>", "a"),
    ("hidden text with code in it may be a tab, and stays", "<div hidden><pre>a</pre></div>", "```\na\n```"),
    ("a button is no text", "<p>a<button>Copy</button></p>", "a"),
    ("several admonitions by their class", '<aside class="tip">a</aside>', "> **Tip**\n>\n> a"),
    ("an aside that is none", '<aside class="x"><p>a</p></aside>', "a"),
    (
        "an admonition with a title of its own",
        '<div class="admonition warning"><p class="admonition-title">Mind the gap</p><p>a</p></div>',
        "> **Warning: Mind the gap**\n>\n> a",
    ),
    (
        "Asciidoctor's admonition is a table",
        '<div class="admonitionblock note"><table><tr><td class="icon">Note</td><td>a</td></tr></table></div>',
        "> **Note**\n>\n> a",
    ),
    ("code with links lists them", '<pre>use <a href="x">y</a></pre>', None),
    ("an unclosed element", "<p>a<b>b", "a**b**"),
    (
        "a table in a table",
        "<table><tr><td>a<table><tr><td>b<td>c</table></table>",
        "a\n\n|  |  |\n| --- | --- |\n| b | c |",
    ),
    ("a table without rows keeps its text", "<table><caption>a</caption></table>", "**a**"),
]


@pytest.mark.parametrize(
    ("html", "markdown"), [row[1:] for row in BLOCKS if row[2]], ids=[r[0] for r in BLOCKS if r[2]]
)
def test_construct(html: str, markdown: str) -> None:
    assert convert(html, URL).markdown == markdown


def test_links_inside_a_code_block_follow_it() -> None:
    markdown = convert('<pre>use <a href="x">y</a> <a href="x">y</a><a href="#l1"></a></pre>', URL).markdown
    assert markdown == "```\nuse y y\n```\n\nLinks in this code: [y](https://docs.test/a/x)"


LINKS = [
    ("relative", "c.html?d#e", "https://docs.test/a/c.html?d#e"),
    ("upwards", "../c", "https://docs.test/c"),
    ("dots", "./c/../d", "https://docs.test/a/d"),
    ("absolute path", "/c", "https://docs.test/c"),
    ("without a scheme", "//other.test/c", "https://other.test/c"),
    ("another scheme of the web", "http://other.test", "http://other.test"),
    ("a query alone", "?x=1", "https://docs.test/a/b.html?x=1"),
    ("a fragment alone", "#x", "https://docs.test/a/b.html#x"),
    ("mail", "mailto:a@docs.test", "mailto:a@docs.test"),
    ("spaces and brackets", "c (d).html", "https://docs.test/a/c%20%28d%29.html"),
    ("white space around", " c ", "https://docs.test/a/c"),
]


@pytest.mark.parametrize(("href", "target"), [row[1:] for row in LINKS], ids=[row[0] for row in LINKS])
def test_a_link_is_absolute(href: str, target: str) -> None:
    assert hrefs(convert(f'<p><a href="{href}">x</a></p>', URL).markdown) == [target]


@pytest.mark.parametrize("href", ["javascript:alert(1)", "data:text/html,x", "vbscript:x", "http://[", "", "x" * 9000])
def test_what_is_no_address_is_no_link(href: str) -> None:
    assert convert(f'<p><a href="{href}">x</a></p>', URL).markdown == "x"


def test_links_are_relative_to_the_base_element_and_fragments_to_the_page() -> None:
    html = '<base href="/docs/v2/"><p><a href="x">a</a> <a href="#y">b</a></p>'
    assert hrefs(convert(html, URL).markdown) == ["https://docs.test/docs/v2/x", f"{URL}#y"]


def test_a_link_without_text_is_named_by_its_label() -> None:
    assert (
        convert('<p><a href="x" aria-label="Home"><svg></svg></a></p>', URL).markdown == "[Home](https://docs.test/a/x)"
    )


# --- which part of the page

ARTICLE = "<p>The text of the page, long enough to be its content.</p><pre>code</pre>"
PLACES = [
    ("main", f"<div>Menu</div><main>{ARTICLE}</main><div>Bottom</div>"),
    ("an article in main", f"<div>Menu</div><main><div>Top of main</div><article>{ARTICLE}</article></main>"),
    ("role=main", f'<div>Menu</div><div role="main">{ARTICLE}</div>'),
    ("a known class", f'<div>Menu</div><div class="markdown-body">{ARTICLE}</div>'),
]


@pytest.mark.parametrize("html", [row[1] for row in PLACES], ids=[row[0] for row in PLACES])
def test_the_main_content_is_picked(html: str) -> None:
    markdown = convert(html, URL).markdown
    assert markdown.endswith("```\ncode\n```")
    assert markdown.startswith("The text of the page")


WIDER = [
    ("code outside main", "<main><p>Short.</p></main><div><pre>npm i</pre></div>", "npm i"),
    ("text spread over articles", "<main><article>One one one.</article><article>Two two two.</article></main>", "Two"),
    ("an article that is only a teaser", f"<article>News!</article><div>{ARTICLE * 3}</div>", "The text of the page"),
]


@pytest.mark.parametrize(("html", "wanted"), [row[1:] for row in WIDER], ids=[row[0] for row in WIDER])
def test_more_than_a_candidate_is_taken_when_it_misses_content(html: str, wanted: str) -> None:
    assert wanted in convert(html, URL).markdown


def test_a_page_that_links_nowhere_shows_where_its_navigation_leads() -> None:
    html = '<nav><a href="/guide">Guide</a><a href="#x">Here</a></nav><main><p>Welcome.</p></main>'
    assert hrefs(convert(html, URL).markdown) == ["https://docs.test/guide"]


# --- tabs

OUTER_STRIP = "<div role=tablist><a role=tab href=#p1>Linux</a><a role=tab href=#p2>Mac</a></div>"
INNER_TABS = (
    "<div role=tablist><a role=tab>apt</a><a role=tab>dnf</a></div><p role=tabpanel>A</p><p role=tabpanel>B</p>"
)
TABS = [
    (
        "labels that are icons",
        "<div class=console-block><label for=u title=Unix>\uf17c</label><section class=c-content-unix>A</section>",
        ["**Tab 1 of 1: Unix**", "A"],
    ),
    (
        "only the tab in front is in the page",
        '<b role="tab">npm</b><b role="tab" aria-selected="true">yarn</b><div role="tabpanel">A</div>',
        ["**Tab 2 of 2: yarn**", "*(Tabs without content in this page: npm)*"],
    ),
    (
        "tabs inside tabs",
        f"{OUTER_STRIP}<div role=tabpanel id=p1>{INNER_TABS}</div><div role=tabpanel id=p2>C</div>",
        ["**Tab 1 of 2: Linux**", "**Tab 1 of 2: apt**", "A", "**Tab 2 of 2: dnf**", "B", "**Tab 2 of 2: Mac**", "C"],
    ),
    (
        "two sets after each other",
        f"{INNER_TABS}<div role=tablist><b role=tab>c</b></div><p role=tabpanel>C",
        ["**Tab 1 of 2: apt**", "A", "**Tab 2 of 2: dnf**", "B", "**Tab 1 of 1: c**", "C"],
    ),
]


@pytest.mark.parametrize(("html", "lines"), [row[1:] for row in TABS], ids=[row[0] for row in TABS])
def test_tabs(html: str, lines: list[str]) -> None:
    markdown = f"\n{convert(html, URL).markdown}\n"
    places = [markdown.find(f"\n{line}\n") for line in lines]
    assert -1 not in places
    assert places == sorted(places)


# --- signs

SHELL = '<script src="/app.js"></script>'
SIGNS = [
    ("an empty page", "", [Sign.EMPTY]),
    ("an application's shell", f'<div id="root"></div>{SHELL}', [Sign.NEEDS_JAVASCRIPT]),
    (
        "a shell with a word for those without scripts",
        f"<noscript>You need to enable JavaScript to run this app.</noscript><div id=app></div>{SHELL}",
        [Sign.NEEDS_JAVASCRIPT],
    ),
    ("a shell that says it is loading", f"<div id=x>Loading…</div>{SHELL}", [Sign.NEEDS_JAVASCRIPT]),
    ("a page with scripts and text", f"<div id=root><p>{'word ' * 30}</p></div>{SHELL}", []),
    ("not found by its title", "<title>Page not found | Widget</title><h1>Oops</h1><p>x", [Sign.NOT_FOUND]),
    ("not found by its heading", "<title>Widget</title><h1>404</h1><p>x", [Sign.NOT_FOUND]),
    (
        "documentation of status 404",
        f"<title>Handling 404 errors</title><h1>Handling 404 errors</h1>{'<p>x y z' * 600}",
        [],
    ),
    ("a page to sign in", "<title>Log in</title><form><input type=password></form><p>Sign in", [Sign.LOGIN]),
    ("documentation of signing in", "<title>Sign in with Widget</title><p>Call sign_in().", []),
    ("a page that asks for consent", "<title>Before you continue</title><p>We use cookies.", [Sign.CONSENT]),
]


@pytest.mark.parametrize(("html", "signs"), [row[1:] for row in SIGNS], ids=[row[0] for row in SIGNS])
def test_signs(html: str, signs: list[Sign]) -> None:
    assert convert(html, URL).signs == signs


def test_a_shell_shows_the_text_for_those_without_scripts() -> None:
    html = f"<noscript><p>Please enable JavaScript.</p></noscript><div id=root></div>{SHELL}"
    assert convert(html, URL).markdown == "Please enable JavaScript."


REFRESH = [
    ("at once", "0; url=/new", "https://docs.test/new"),
    ("in quotes and capitals", "5;URL='next.html'", "https://docs.test/a/next.html"),
    ("later than five seconds", "6; url=/new", ""),
    ("only again", "3", ""),
]


@pytest.mark.parametrize(("content", "target"), [row[1:] for row in REFRESH], ids=[row[0] for row in REFRESH])
def test_meta_refresh(content: str, target: str) -> None:
    assert convert(f'<meta http-equiv="Refresh" content="{content}"><p>x', URL).refresh == target


def test_canonical_and_markdown_variant_are_told() -> None:
    html = '<link rel="canonical" href="/c"><link rel="alternate" type="text/markdown" href="b.md"><p>x'
    result = convert(html, URL)
    assert (result.canonical, result.markdown_variant) == ("https://docs.test/c", "https://docs.test/a/b.md")


# --- what holds for every page

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
tags = st.sampled_from(
    [
        "p",
        "div",
        "pre",
        "code",
        "ul",
        "ol",
        "li",
        "table",
        "tr",
        "td",
        "th",
        "b",
        "i",
        "a",
        "span",
        "h1",
        "blockquote",
        "dl",
        "dt",
        "dd",
        "br",
        "svg",
        "form",
        "nav",
    ]
)
attributes = st.sampled_from(
    [
        "",
        " href=x",
        " class=line",
        " class=tabbed-set",
        " role=tab",
        " role=tabpanel",
        " role=tablist",
        " hidden",
        " class='admonition note'",
        " class=highlighttable",
        " id=main",
        " class=linenos",
        " rowspan=3",
        " colspan=70",
    ]
)
pieces = st.one_of(
    texts,
    st.builds(lambda tag, attribute: f"<{tag}{attribute}>", tags, attributes),
    st.builds(lambda tag: f"</{tag}>", tags),
    st.sampled_from(["<!--", "-->", "<", ">", "&amp;", "&#0;", "<![CDATA[", "</", "\n", "  "]),
)
markup = st.lists(pieces, max_size=40).map("".join)


@given(markup)
def test_no_markup_makes_it_raise_and_its_places_are_in_the_text(html: str) -> None:
    result = convert(html, URL)
    size = len(result.markdown)
    assert all(0 <= heading.offset < size for heading in result.headings)
    assert all(0 <= offset <= size for offset in result.anchors.values())
    assert size <= 60 * len(html) + 200


@given(st.lists(texts.filter(str.strip), min_size=1, max_size=4))
def test_paragraphs_say_what_they_said(paragraphs: list[str]) -> None:
    from html import escape

    html = "".join(f"<p>{escape(text)}</p>" for text in paragraphs)
    shown = "".join(c for c in "\n".join(paragraphs) if c not in "\u200b\u2060\ufeff\u00ad")
    assert "".join(words(convert(html, URL).markdown).split()) == "".join(shown.split())


codes = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\u00a0\u2028\u2029\x85\x0b\x0c"), max_size=200)


@given(codes)
def test_code_is_verbatim(code: str) -> None:
    from html import escape

    body = code.strip("\n").rstrip()
    while body and not body.split("\n")[0].strip():
        body = body.partition("\n")[2]
    got = fences(convert(f"<pre><code>{escape(code)}</code></pre>", URL).markdown)
    assert [text for _, text in got] == ([body] if body else [])


inline_texts = st.text("ab *_`[]()<&\\#1.-\n\u00a0é", max_size=6)
inline_elements = st.builds(
    lambda tag, text: Element(tag, {"href": "x"} if tag == "a" else {}, [text]),
    st.sampled_from(["a", "b", "i", "code", "kbd", "del"]),
    inline_texts,
)


@given(st.lists(st.one_of(inline_texts, inline_elements), max_size=6))
def test_the_quick_way_to_write_a_line_writes_the_same(nodes: list[Node]) -> None:
    links = Links(URL, URL)
    quick = quick_line(nodes, links)
    if quick is not None:
        assert quick == render(collect(Element("p", {}, nodes), Links(URL, URL)))
        assert links.count == sum(isinstance(node, Element) and node.tag == "a" for node in nodes)
