"""Code blocks as seen in the wild: highlighters in the browser, blogs, code hosts. And the list of all kinds."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from tests.support import docs_pages as p
from tests.support.docs_pages import Kind, Labelled, joined, lines_of, numbers, spans
from tests.support.docs_samples import NOISE, Sample


def shiki(separator: str, style: str = "") -> p.Block:
    def draw(sample: Sample, number: int) -> str:
        lines = separator.join(f'<span class="line"{style}>{spans(text)}</span>' for text in lines_of(sample))
        return (
            f'<pre class="shiki nord" style="background-color:#2e3440ff" tabindex="0" '
            f'data-language="{sample.language}">'
            f"<code>{lines}</code></pre>"
        )

    return draw


def prism(sample: Sample, number: int) -> str:
    rows = "<span></span>" * len(lines_of(sample))
    return (
        f'<div class="code-toolbar"><pre class="line-numbers language-{sample.language}" tabindex="0">'
        f'<code class="language-{sample.language}">{joined(sample)}<span aria-hidden="true" class="line-numbers-rows">'
        f'{rows}</span></code></pre><div class="toolbar"><div class="toolbar-item"><button>{NOISE[2]}</button></div>'
        "</div></div>"
    )


def br_and_nbsp(sample: Sample, number: int) -> str:
    def line(text: str) -> str:
        indent = len(text) - len(text.lstrip(" "))
        return "&nbsp;" * indent + escape(text[indent:])

    code = "<br>".join(line(text) for text in lines_of(sample))
    if number % 2:
        return f'<p><code class="language-{sample.language}">{code}</code></p>'
    return f'<pre class="language-{sample.language}">{code}<br></pre>'


def div_lines(sample: Sample, number: int) -> str:
    if number % 2:
        lines = "".join(f"<div>{spans(text) or '<br>'}</div>" for text in lines_of(sample))
    else:
        lines = "".join(f'<div class="token-line">{spans(text)}</div>' for text in lines_of(sample))
    return f'<pre data-lang="{sample.language}"><code>{lines}</code></pre>'


def rehype(sample: Sample, number: int) -> str:
    lines = "\n".join(f'<span data-line="">{spans(text) or " "}</span>' for text in lines_of(sample))
    lang = sample.language
    return (
        f'<figure data-rehype-pretty-code-figure=""><pre tabindex="0" data-language="{lang}" data-theme="x"><code '
        f'data-language="{lang}" data-theme="x" style="display:grid">{lines}</code></pre></figure>'
    )


def hexo(sample: Sample, number: int) -> str:
    gutter = numbers(sample, '<span class="line">', "</span><br>")
    code = "".join(f'<span class="line">{spans(text)}</span><br>' for text in lines_of(sample))
    return (
        f'<figure class="highlight {sample.language}"><table><tr><td class="gutter"><pre>{gutter}</pre></td>'
        f'<td class="code"><pre>{code}</pre></td></tr></table></figure>'
    )


def react(sample: Sample, number: int) -> str:
    lang, style = sample.language, "display:block;overflow-x:auto;padding:0.5em"
    if number % 3 == 0:
        gutter = "".join(f"<span>{n}\n</span>" for n, _ in enumerate(lines_of(sample), 1))
        head = f'<code style="float:left;padding-right:10px">{gutter}</code>'
        code = f'<code class="language-{lang}" style="white-space:pre">{joined(sample)}</code>'
        return f'<pre style="{style}">{head}{code}</pre>'
    if number % 3 == 1:
        lines = "".join(
            f'<span style="display:block"><span class="linenumber react-syntax-highlighter-line-number" '
            f'style="display:inline-block;min-width:2.25em;user-select:none">{i}</span>{spans(text)}\n</span>'
            for i, text in enumerate(lines_of(sample), 1)
        )
        return f'<pre style="{style}"><code class="language-{lang}" style="white-space:pre">{lines}</code></pre>'
    lines = "".join(
        f'<div class="token-line" style="color:#9EFEFF"><span style="user-select:none;opacity:.5">{i}</span>'
        f"{spans(text)}</div>"
        for i, text in enumerate(lines_of(sample), 1)
    )
    return f'<pre class="prism-code language-{lang}">{lines}</pre>'


def github(sample: Sample, number: int) -> str:
    if number % 4 == 3:
        rows = "".join(
            f'<tr><td id="L{i}" class="blob-num js-line-number" data-line-number="{i}"></td><td id="LC{i}" '
            f'class="blob-code blob-code-inner js-file-line">{spans(text, "pl")}</td></tr>\n'
            for i, text in enumerate(lines_of(sample), 1)
        )
        return (
            f'<div class="highlight highlight-source-{sample.language}"><table data-tab-size="8" '
            f'class="highlight js-file-line-container">{rows}</table></div>'
        )
    return (
        f'<div class="highlight highlight-source-{sample.language} notranslate position-relative" dir="auto" '
        f'data-snippet-clipboard-copy-content="{escape(sample.text)}"><pre>{joined(sample).rstrip()}</pre>'
        f'<div class="zeroclipboard-container"><clipboard-copy aria-label="Copy" value="x">{NOISE[2]}</clipboard-copy>'
        "</div></div>"
    )


def github_heading(anchor: str, text: str) -> str:
    level = 1 if anchor == "start" else 2
    return (
        f'<div class="markdown-heading" dir="auto"><h{level} class="heading-element">{text}</h{level}><a '
        f'id="user-content-{anchor}" class="anchor" aria-label="Permalink: {text}" href="#{anchor}"><svg></svg></a>'
        "</div>"
    )


def assorted(sample: Sample, number: int) -> str:
    """Rouge's table, Asciidoctor, SyntaxHighlighter, Doxygen, pandoc, mdBook, Gatsby, numbers by a plugin."""
    lang, lines = sample.language, lines_of(sample)
    which = number % 8
    if which == 0:
        gutter = "\n".join(str(n) for n, _ in enumerate(lines, 1))
        return (
            f'<div class="language-{lang} highlighter-rouge"><div class="highlight"><pre class="highlight">'
            f"<code><table "
            f'class="rouge-table"><tbody><tr><td class="gutter gl"><pre class="lineno">{gutter}\n</pre></td><td '
            f'class="code"><pre>{joined(sample)}</pre></td></tr></tbody></table></code></pre></div></div>'
        )
    if which == 1:
        callout = '<i class="conum" data-value="1"></i><b>(1)</b>'
        body = "\n".join([spans(lines[0]) + callout, *(spans(line) for line in lines[1:])])
        return (
            f'<div class="listingblock"><div class="content"><pre class="highlight"><code class="language-{lang}" '
            f'data-lang="{lang}">{body}</code></pre></div></div>'
        )
    if which == 2:
        gutter = "".join(f'<div class="line number{n}">{n}</div>' for n, _ in enumerate(lines, 1))
        body = "".join(
            f'<div class="line number{n}"><code class="{lang} plain">{escape(t) or "&nbsp;"}</code></div>'
            for n, t in enumerate((line.replace("  ", "\u00a0\u00a0") for line in lines), 1)
        )
        return (
            f'<div class="syntaxhighlighter {lang}"><table border="0"><tbody><tr><td class="gutter">{gutter}</td>'
            f'<td class="code"><div class="container">{body}</div></td></tr></tbody></table></div>'
        )
    if which == 3:
        body = "\n".join(
            f'<div class="line"><a name="l{n:05}"></a><span class="lineno">{n:5}</span>&#160;'
            f"{escape(t).replace('  ', '&#160;&#160;')}</div>"
            for n, t in enumerate(lines, 1)
        ).replace("</span>&#160;", "</span>")
        return f'<div class="fragment" data-lang="{lang}">{body}</div><!-- fragment -->'
    if which == 4:
        body = "\n".join(
            f'<span id="cb{number}-{n}"><a href="#cb{number}-{n}" aria-hidden="true"></a>{spans(t)}</span>'
            for n, t in enumerate(lines, 1)
        )
        return (
            f'<div class="sourceCode" id="cb{number}"><pre class="sourceCode {lang}"><code class="sourceCode {lang}">'
            f"{body}</code></pre></div>"
        )
    if which == 5:
        return (
            '<pre><pre class="playground"><div class="buttons"><button class="fa fa-copy">Copy</button></div>'
            f'<code class="language-{lang} hljs">{joined(sample)}</code></pre></pre>'
        )
    if which == 6:
        body = "".join(f'<span class="gatsby-highlight-code-line">{spans(t)}</span>' for t in lines)
        return (
            f'<div class="gatsby-highlight" data-language="{lang}"><pre class="language-{lang}"><code '
            f'class="language-{lang}">{body}</code></pre></div>'
        )
    body = "".join(
        f'<tr><td class="hljs-ln-line hljs-ln-numbers" data-line-number="{n}"><div class="hljs-ln-n"></div></td>'
        f'<td class="hljs-ln-line hljs-ln-code" data-line-number="{n}">{spans(t)}</td></tr>'
        for n, t in enumerate(lines, 1)
    )
    table = f'<table class="hljs-ln"><tbody>{body}</tbody></table>'
    return f'<pre><code class="hljs {lang} language-{lang}">{table}</code></pre>'


def _wild(name: str, block: p.Block) -> Kind:
    main = '<main id="content">CONTENT</main>'
    alert = p.box("callout callout-KIND", "<strong>KIND</strong>")
    return Kind(name, block, p.aria_tabs, alert, p.hashed('<a class="anchor" href="#ID">#</a>'), p.framed(main))


_SPHINX_MAIN = '<div class="document"><div class="body" role="main"><section id="start">CONTENT</section></div></div>'
_DOCUSAURUS = Kind(
    "docusaurus",
    p.docusaurus,
    p.docusaurus_tabs,
    p.box(
        "theme-admonition theme-admonition-KIND admonition_xJq3 alert alert--KIND",
        '<div class="admonitionHeading_Gvgb"><span class="admonitionIcon_Rf37"><svg></svg></span>KIND</div>',
    ),
    p.hashed('<a href="#ID" class="hash-link" aria-label="Direct link" title="Direct link">\u200b</a>'),
    p.framed(
        '<main class="docMainContainer_TBSr"><article><nav class="theme-doc-breadcrumbs">Sidebar entry</nav>'
        '<div class="tocCollapsible_ETCw theme-doc-toc-mobile">On this page</div>'
        '<div class="theme-doc-markdown markdown">CONTENT</div>'
        '<footer class="theme-doc-footer">Edit this page</footer></article></main>'
    ),
)
_GITHUB_ALERT = p.box("markdown-alert markdown-alert-KIND", '<p class="markdown-alert-title"><svg></svg>KIND</p>')


def _sphinx(name: str, tabs: Callable[[Labelled], str], main: str) -> Kind:
    return Kind(name, p.sphinx, tabs, p.SPHINX_NOTE, p.SPHINX_HEADING, p.framed(main))


KINDS: tuple[Kind, ...] = (
    _DOCUSAURUS,
    Kind(
        "vitepress",
        p.vitepress,
        p.vitepress_tabs,
        p.box("KIND custom-block", '<p class="custom-block-title">KIND</p>'),
        p.hashed('<a class="header-anchor" href="#ID" aria-label="Permalink">\u200b</a>'),
        p.framed(
            '<div class="VPContent"><main class="main"><div class="vp-doc _guide"><div>CONTENT</div></div></main></div>'
        ),
    ),
    Kind(
        "starlight",
        p.starlight,
        p.starlight_tabs,
        p.starlight_aside,
        p.starlight_heading,
        p.framed('<main><div class="content-panel"><div class="sl-markdown-content">CONTENT</div></div></main>'),
    ),
    Kind(
        "material-inline",
        p.material_inline,
        p.material_tabs,
        p.SPHINX_NOTE,
        p.SPHINX_HEADING,
        p.framed('<main class="md-main"><article class="md-content__inner md-typeset">CONTENT</article></main>'),
    ),
    Kind(
        "material-table",
        p.material_table,
        p.material_old_tabs,
        p.SPHINX_NOTE,
        p.SPHINX_HEADING,
        p.framed('<main class="md-main"><article class="md-content__inner md-typeset">CONTENT</article></main>'),
    ),
    Kind(
        "hugo",
        p.hugo,
        p.bootstrap_tabs,
        p.box("alert alert-KIND", '<h4 class="alert-heading">KIND</h4>'),
        p.hashed('<a class="td-heading-self-link" href="#ID" aria-label="Heading self-link"></a>'),
        p.framed('<main class="col-12" role="main"><div class="td-content">CONTENT</div></main>'),
    ),
    _sphinx(
        "sphinx-furo",
        p.sphinx_inline_tabs,
        f'<div class="main"><article role="main" id="furo-main-content">{_SPHINX_MAIN}</article></div>',
    ),
    _sphinx("sphinx-rtd", p.sphinx_tabs, f'<div class="rst-content">{_SPHINX_MAIN}</div>'),
    _sphinx(
        "sphinx-pydata", p.sphinx_design_tabs, f'<main><article class="bd-article">{_SPHINX_MAIN}</article></main>'
    ),
    _sphinx("sphinx-alabaster", p.sphinx_tabs, _SPHINX_MAIN),
    _wild("shiki-newlines", shiki("\n")),
    _wild("shiki-no-newlines", shiki("", ' style="display:block"')),
    _wild("prism", prism),
    _wild("br-nbsp", br_and_nbsp),
    _wild("div-lines", div_lines),
    _wild("rehype-pretty-code", rehype),
    _wild("hexo", hexo),
    _wild("react", react),
    Kind(
        "github",
        github,
        p.aria_tabs,
        _GITHUB_ALERT,
        github_heading,
        p.framed('<main><article class="markdown-body entry-content">CONTENT</article></main>'),
    ),
    _wild("assorted", assorted),
)
