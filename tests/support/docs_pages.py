"""Documentation pages as the tools that people use make them, from one source. Our own markup, shaped as theirs.

Each kind of page is a `Kind`: how it draws a code block, tabs, an admonition, a heading and the page around them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from tests.support.docs_samples import ADMONITION, LINKS, NOISE, SAMPLES, TABLE, TABS, Sample

Block = Callable[[Sample, int], str]
Labelled = list[tuple[str, str]]


@dataclass(frozen=True)
class Kind:
    """`languages` is false where the tool's markup doesn't say them."""

    name: str
    block: Block
    tabs: Callable[[Labelled], str]
    admonition: Callable[[str, str], str]
    heading: Callable[[str, str], str]
    frame: Callable[[str], str]
    languages: bool = True


def page(kind: Kind) -> str:
    """The whole page of a kind."""
    parts = [kind.heading("start", "Getting started"), f"<p>{NBSP.join(('Install', 'and'))} run it.</p>"]
    for number, sample in enumerate(SAMPLES):
        if number == 5:
            parts.append(kind.heading("usage", "Usage"))
        parts.append(f"<p>Step {number}: {sample.name}.</p>{kind.block(sample, number)}")
    parts.append(kind.tabs([(label, kind.block(sample, 20)) for label, sample in TABS]))
    parts.append("".join(f'<p>See <a href="{escape(href)}">{escape(text)}</a> now.</p>' for text, href, _ in LINKS))
    parts.append(kind.admonition(*ADMONITION))
    parts.append(_table())
    return kind.frame("\n".join(parts))


NBSP = "&nbsp;"


def _table() -> str:
    head, *rows = TABLE
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr><td><code>{escape(row[0])}</code></td><td>{escape(row[1])}</td></tr>" for row in rows)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


# --- pieces


def spans(text: str, cls: str = "tok") -> str:
    """A line as a highlighter leaves it: words in spans, the rest bare."""
    parts = re.split(r"(\w+)", text)
    return "".join(f'<span class="{cls} k">{escape(p)}</span>' if i % 2 else escape(p) for i, p in enumerate(parts))


def lines_of(sample: Sample) -> list[str]:
    return sample.text.rstrip("\n").split("\n")


def joined(sample: Sample) -> str:
    return "\n".join(spans(line) for line in lines_of(sample)) + "\n"


def numbers(sample: Sample, start: str = "", end: str = "\n") -> str:
    return "".join(f"{start}{n}{end}" for n, _ in enumerate(lines_of(sample), 1))


def no_tabs(panels: Labelled) -> str:
    return aria_tabs(panels)


def aria_tabs(panels: Labelled) -> str:
    strip = "".join(
        f'<button role="tab" id="t-{i}" aria-controls="p-{i}" aria-selected="{"true" if i == 0 else "false"}">'
        f"{label}</button>"
        for i, (label, _) in enumerate(panels)
    )
    shown = "".join(
        f'<div role="tabpanel" id="p-{i}" aria-labelledby="t-{i}"{" hidden" if i else ""}>{html}</div>'
        for i, (_, html) in enumerate(panels)
    )
    return f'<div class="x-tabs"><div role="tablist">{strip}</div>{shown}</div>'


def box(cls: str, title: str) -> Callable[[str, str], str]:
    """An admonition as a `div` with a title paragraph."""

    def draw(kind: str, text: str) -> str:
        name = title.replace("KIND", kind.capitalize())
        return f'<div class="{cls.replace("KIND", kind)}">{name}<p>{escape(text)}</p></div>'

    return draw


def hashed(link: str) -> Callable[[str, str], str]:
    def draw(anchor: str, text: str) -> str:
        level = 1 if anchor == "start" else 2
        return f'<h{level} id="{anchor}">{escape(text)}{link.replace("ID", anchor)}</h{level}>'

    return draw


def framed(main: str) -> Callable[[str], str]:
    """A page around `main`, which has CONTENT where the content goes."""

    def draw(content: str) -> str:
        skip, entry, _, edit, right, toc = NOISE
        return (
            "<!doctype html><html lang=en><head><meta charset=utf-8><title>Getting started | Widget</title>"
            "<script>window.x='<pre>no</pre>'</script><style>.a{}</style></head><body>"
            f'<a class="skip-link visually-hidden" href="#start">{skip}</a>'
            f'<header><nav class="navbar"><a href="/">{entry}</a></nav></header>'
            f'<nav class="menu" aria-label="Docs sidebar"><ul><li><a href="/a">{entry}</a></li></ul></nav>'
            f"{main.replace('CONTENT', content)}"
            f'<nav class="toc"><p>{toc}</p><a href="#usage">{toc}</a></nav>'
            f'<footer class="footer"><a href="/edit">{edit}</a> {right}</footer></body></html>'
        )

    return draw


# --- generators of documentation sites


def docusaurus(sample: Sample, number: int) -> str:
    def line(text: str, index: int) -> str:
        if not text:
            return (
                '<span class="token-line" style="color:#393A34"><span class="token plain" '
                'style="display:inline-block"></span><br></span>'
            )
        body = spans(text, "token")
        if number % 2:
            body = f'<span class="codeLineNumber_Tfdd"></span><span class="codeLineContent_feaV">{body}</span>'
        return f'<span class="token-line" style="color:#393A34">{body}<br></span>'

    code = "".join(line(text, i) for i, text in enumerate(lines_of(sample)))
    return (
        f'<div class="language-{sample.language} codeBlockContainer_Ckt0 theme-code-block">'
        f'<div class="codeBlockContent_QJqH"><pre tabindex="0" class="prism-code language-{sample.language} '
        f'codeBlock_bY9V thin-scrollbar"><code class="codeBlockLines_e6Vv">{code}</code></pre>'
        f'<div class="buttonGroup_M5ko"><button type="button" aria-label="Copy">{NOISE[2]}</button></div></div></div>'
    )


def docusaurus_tabs(panels: Labelled) -> str:
    strip = "".join(
        f'<li role="tab" tabindex="0" aria-selected="{str(not i).lower()}" class="tabs__item tabItem_LNqP">{label}</li>'
        for i, (label, _) in enumerate(panels)
    )
    shown = "".join(
        f'<div role="tabpanel" class="tabItem_Ymn6"{" hidden" if i else ""}>{html}</div>'
        for i, (_, html) in enumerate(panels)
    )
    return (
        f'<div class="theme-tabs-container tabs-container tabList__CuJ"><ul role="tablist" class="tabs">{strip}</ul>'
        f'<div class="margin-top--md">{shown}</div></div>'
    )


def vitepress(sample: Sample, number: int) -> str:
    lines = "\n".join(
        f'<span class="line"><span style="--shiki-light:#6F42C1">{escape(text)}</span></span>'
        if text
        else '<span class="line"></span>'
        for text in lines_of(sample)
    )
    gutter = numbers(sample, '<span class="line-number">', "</span><br>") if number % 2 else ""
    wrapper = f'<div class="line-numbers-wrapper" aria-hidden="true">{gutter}</div>' if gutter else ""
    return (
        f'<div class="language-{sample.language} vp-adaptive-theme line-numbers-mode"><button title="Copy Code" '
        f'class="copy"></button><span class="lang">{sample.language}</span><pre class="shiki shiki-themes github-light '
        f'vp-code" tabindex="0"><code>{lines}</code></pre>{wrapper}</div>'
    )


def vitepress_tabs(panels: Labelled) -> str:
    strip = "".join(
        f'<input type="radio" name="group-1" id="tab-{i}"><label data-title="{label}" for="tab-{i}">{label}</label>'
        for i, (label, _) in enumerate(panels)
    )
    return (
        f'<div class="vp-code-group vp-adaptive-theme"><div class="tabs">{strip}</div>'
        f'<div class="blocks">{"".join(html for _, html in panels)}</div></div>'
    )


def starlight(sample: Sample, number: int) -> str:
    def line(text: str, index: int) -> str:
        gutter = f'<div class="gutter"><div class="ln" aria-hidden="true">{index}</div></div>' if number % 2 else ""
        indent = len(text) - len(text.lstrip(" "))
        body = f'<span class="indent">{" " * indent}</span>{spans(text[indent:])}' if indent else spans(text)
        newline = "\n"
        return f'<div class="ec-line">{gutter}<div class="code">{body or newline}</div></div>'

    code = "".join(line(text, i) for i, text in enumerate(lines_of(sample), 1))
    data = escape(sample.text.replace("\n", "\x7f"))
    return (
        f'<div class="expressive-code"><figure class="frame is-terminal not-content"><figcaption class="header">'
        f'<span class="title"></span><span class="sr-only">{NOISE[2]}</span></figcaption>'
        f'<pre data-language="{sample.language}"><code>{code}</code></pre><div class="copy"><button '
        f'title="{NOISE[2]}" data-copied="Copied!" data-code="{data}"><div></div></button></div></figure></div>'
    )


def starlight_tabs(panels: Labelled) -> str:
    strip = "".join(
        f'<li role="presentation" class="tab"><a role="tab" href="#tab-panel-{i}" id="tab-{i}" '
        f'aria-selected="{str(not i).lower()}"> <svg><title>icon</title></svg> {label} </a></li>'.replace(
            "<title>icon</title>", ""
        )
        for i, (label, _) in enumerate(panels)
    )
    shown = "".join(
        f'<div id="tab-panel-{i}" aria-labelledby="tab-{i}" role="tabpanel"{" hidden" if i else ""}>{html}</div>'
        for i, (_, html) in enumerate(panels)
    )
    return (
        f'<starlight-tabs><div class="tablist-wrapper not-content"><ul role="tablist">{strip}</ul></div>{shown}'
        "</starlight-tabs>"
    )


def starlight_aside(kind: str, text: str) -> str:
    name = kind.capitalize()
    return (
        f'<aside aria-label="{name}" class="starlight-aside starlight-aside--{kind}"><p class="starlight-aside__title" '
        f'aria-hidden="true"><svg></svg>{name}</p><div class="starlight-aside__content"><p>{text}</p></div></aside>'
    )


def starlight_heading(anchor: str, text: str) -> str:
    level = 1 if anchor == "start" else 2
    return (
        f'<div class="sl-heading-wrapper level-h{level}"><h{level} id="{anchor}">{text}</h{level}>'
        f'<a class="sl-anchor-link" href="#{anchor}"><span aria-hidden="true" class="sl-anchor-icon"><svg></svg></span>'
        f'<span class="sr-only">Section titled “{text}”</span></a></div>'
    )


def material_inline(sample: Sample, number: int) -> str:
    numbered = number % 2
    lines = "".join(
        f'<span id="__span-{number}-{i}"><a id="__codelineno-{number}-{i}" name="__codelineno-{number}-{i}" '
        f'href="#__codelineno-{number}-{i}"></a>{f"""<span class="linenos">{i}</span>""" if numbered else ""}'
        f"{spans(text)}\n</span>"
        for i, text in enumerate(lines_of(sample), 1)
    )
    return (
        f'<div class="language-{sample.language} highlight"><pre><span></span><code>{lines}</code></pre>'
        f'<button class="md-clipboard md-icon" title="{NOISE[2]}"></button></div>'
    )


def material_table(sample: Sample, number: int) -> str:
    gutter = "\n".join(f'<span class="normal">{n}</span>' for n, _ in enumerate(lines_of(sample), 1))
    return (
        f'<div class="language-{sample.language} highlight"><table class="highlighttable"><tr><td class="linenos">'
        f'<div class="linenodiv"><pre><span></span>{gutter}</pre></div></td><td class="code"><div><pre><span></span>'
        f"<code>{joined(sample)}</code></pre></div></td></tr></table></div>"
    )


def material_tabs(panels: Labelled) -> str:
    inputs = "".join(f'<input id="__tabbed_1_{i}" name="__tabbed_1" type="radio">' for i, _ in enumerate(panels, 1))
    strip = "".join(f'<label for="__tabbed_1_{i}">{label}</label>' for i, (label, _) in enumerate(panels, 1))
    shown = "".join(f'<div class="tabbed-block">{html}</div>' for _, html in panels)
    return (
        f'<div class="tabbed-set tabbed-alternate" data-tabs="1:{len(panels)}">{inputs}'
        f'<div class="tabbed-labels">{strip}'
        f'</div><div class="tabbed-content">{shown}</div></div>'
    )


def material_old_tabs(panels: Labelled) -> str:
    return '<div class="tabbed-set">{}</div>'.format(
        "".join(
            f'<input id="__tabbed_2_{i}" name="__tabbed_2" type="radio"><label for="__tabbed_2_{i}">{label}</label>'
            f'<div class="tabbed-content">{html}</div>'
            for i, (label, html) in enumerate(panels)
        )
    )


def hugo(sample: Sample, number: int) -> str:
    lang = sample.language
    if number % 3 == 0:
        gutter = numbers(sample, '<span class="lnt">', "\n</span>")
        lines = "".join(
            f'<span class="line"><span class="cl">{spans(text)}\n</span></span>' for text in lines_of(sample)
        )
        return (
            '<div class="highlight"><div class="chroma"><table class="lntable"><tr><td class="lntd"><pre tabindex="0" '
            f'class="chroma"><code>{gutter}</code></pre></td><td class="lntd"><pre tabindex="0" class="chroma">'
            f'<code class="language-{lang}" data-lang="{lang}">{lines}</code></pre></td></tr></table></div></div>'
        )
    number_of = '<span class="ln">{}</span>' if number % 3 == 1 else ""
    lines = "".join(
        f'<span class="line">{number_of.format(i)}<span class="cl">{spans(text)}\n</span></span>'
        for i, text in enumerate(lines_of(sample), 1)
    )
    return (
        f'<div class="highlight"><pre tabindex="0" style="color:#f8f8f2" class="chroma"><code class="language-{lang}" '
        f'data-lang="{lang}">{lines}</code></pre></div>'
    )


def bootstrap_tabs(panels: Labelled) -> str:
    strip = "".join(
        f'<li class="nav-item"><button class="nav-link" id="tabs-{i}-tab" data-bs-toggle="tab" '
        f'data-bs-target="#tabs-{i}" '
        f'role="tab" aria-controls="tabs-{i}" aria-selected="{str(not i).lower()}">{label}</button></li>'
        for i, (label, _) in enumerate(panels)
    )
    shown = "".join(
        f'<div class="tab-body tab-pane fade" id="tabs-{i}" role="tabpanel" aria-labelledby="tabs-{i}-tab">{html}</div>'
        for i, (_, html) in enumerate(panels)
    )
    return f'<ul class="nav nav-tabs" role="tablist">{strip}</ul><div class="tab-content">{shown}</div>'


def sphinx(sample: Sample, number: int) -> str:
    lang = sample.language
    wrapper = f'<div class="highlight-{lang} notranslate">'
    if number % 3 == 0:
        gutter = "\n".join(f'<span class="normal">{n}</span>' for n, _ in enumerate(lines_of(sample), 1))
        return (
            f'{wrapper}<table class="highlighttable"><tr><td class="linenos"><div class="linenodiv"><pre>{gutter}</pre>'
            f'</div></td><td class="code"><div class="highlight"><pre><span></span>{joined(sample)}</pre>'
            "</div></td></tr></table></div>"
        )
    number_of = '<span class="linenos">{:>2}</span>' if number % 3 == 1 else ""
    lines = "".join(f"{number_of.format(i)}{spans(text)}\n" for i, text in enumerate(lines_of(sample), 1))
    caption = (
        f'<div class="code-block-caption"><span class="caption-text">File {number}</span>'
        f'<a class="headerlink" href="#id{number}" title="Link">¶</a></div>'
    )
    return (
        f'<div class="literal-block-wrapper docutils container">{caption}{wrapper}<div class="highlight"><pre><span>'
        f'</span>{lines}</pre><button class="copybtn o-tooltip--left" data-tooltip="Copy">{NOISE[2]}</button>'
        "</div></div></div>"
    )


def sphinx_inline_tabs(panels: Labelled) -> str:
    return '<div class="tab-set docutils">{}</div>'.format(
        "".join(
            f'<input class="tab-input" id="tab-set--0-input--{i}" name="tab-set--0" type="radio"><label '
            f'class="tab-label" for="tab-set--0-input--{i}">{label}</label>'
            f'<div class="tab-content docutils">{html}</div>'
            for i, (label, html) in enumerate(panels)
        )
    )


def sphinx_design_tabs(panels: Labelled) -> str:
    return '<div class="sd-tab-set docutils">{}</div>'.format(
        "".join(
            f'<input id="sd-tab-item-{i}" name="sd-tab-set-0" type="radio"><label class="sd-tab-label" '
            f'data-sync-id="{label}" for="sd-tab-item-{i}">{label}</label>'
            f'<div class="sd-tab-content docutils">{html}</div>'
            for i, (label, html) in enumerate(panels)
        )
    )


def sphinx_tabs(panels: Labelled) -> str:
    strip = "".join(
        f'<button aria-controls="panel-0-{i}" aria-selected="{str(not i).lower()}" class="sphinx-tabs-tab" '
        f'id="tab-0-{i}" name="0-{i}" role="tab" tabindex="0">{label}</button>'
        for i, (label, _) in enumerate(panels)
    )
    shown = "".join(
        f'<div aria-labelledby="tab-0-{i}" class="sphinx-tabs-panel" id="panel-0-{i}" role="tabpanel" '
        f"{'hidden=true' if i else ''}>{html}</div>"
        for i, (_, html) in enumerate(panels)
    )
    return (
        '<div class="sphinx-tabs docutils container"><div aria-label="Tabbed content" class="closeable" '
        f'role="tablist">{strip}</div>{shown}</div>'
    )


SPHINX_NOTE = box("admonition KIND", '<p class="admonition-title">KIND</p>')
SPHINX_HEADING = hashed('<a class="headerlink" href="#ID" title="Permalink to this heading">¶</a>')
