"""Tabs: strips of labels and the panels they show, paired into labelled panels in the strip's order.

While the page is read, strips and panels are noted in document order; `pair` runs when all are known. A pair is found
by ids (`aria-controls`, `aria-labelledby`), else by order among those with the same surrounding panel.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from selectolax.lexbor import LexborNode

from quickstarted.docs.html.names import words
from quickstarted.docs.html.tree import Element

# Containers of radio buttons with labels: MkDocs Material, sphinx-design, sphinx-inline-tabs, VitePress, Django.
RADIO_SETS = words("tabbed-set tab-set sd-tab-set vp-code-group console-block")
_RADIO_PANELS = words("tabbed-block tab-content sd-tab-content c-content-unix c-content-win")
_STRIPS = words("nav-tabs tabs-nav tablist")


@dataclass(slots=True)
class Tab:
    label: str
    id: str = ""
    controls: str = ""
    selected: bool = False


@dataclass(slots=True, eq=False)
class Panel:
    """`element` is the `tab` element in the tree; `around` the panel that it is in."""

    element: Element
    around: Panel | None
    id: str = ""
    labelled_by: str = ""
    strip: Strip | None = None


@dataclass(slots=True, eq=False)
class Strip:
    """The labels of one set. A radio set claims its panels while it is open; others are paired at the end."""

    around: Panel | None
    radio: bool = False
    alternate: bool = False  # MkDocs Material's newer form, where `tabbed-content` is not a panel
    tabs: list[Tab] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)


def is_strip(attrs: dict[str, str | None], names: frozenset[str]) -> bool:
    return attrs.get("role") == "tablist" or bool(names & _STRIPS)


def is_tab(tag: str, attrs: dict[str, str | None]) -> bool:
    if attrs.get("role") == "tab":
        return True
    return tag in ("a", "button", "label") and "tab" in (attrs.get("data-toggle"), attrs.get("data-bs-toggle"))


def is_panel(
    attrs: dict[str, str | None], names: frozenset[str], parent: LexborNode | None, radio: Strip | None
) -> bool:
    """Whether an element is one panel of a set; `radio` is the radio set that it is in, if any."""
    if attrs.get("role") == "tabpanel" or "tab-pane" in names:
        return True
    if radio is None:
        return False
    if names & _RADIO_PANELS or ("tabbed-content" in names and not radio.alternate):
        return True
    return parent is not None and "blocks" in (parent.attributes.get("class") or "").split()


def tab_of(attrs: dict[str, str | None], label: str) -> Tab:
    controls = attrs.get("aria-controls") or attrs.get("data-bs-target") or attrs.get("data-target") or ""
    href = attrs.get("href") or ""
    if not controls and href.startswith("#") and len(href) > 1:
        controls = href
    return Tab(label, attrs.get("id") or "", controls.removeprefix("#"), attrs.get("aria-selected") == "true")


def pair(sequence: list[Strip | Panel]) -> None:
    """Gives panels their `label`, `index` and `count`, and the last one of a set the labels without a panel."""
    by_id: dict[str, tuple[Strip, int]] = {}
    for item in sequence:
        if isinstance(item, Strip):
            for index, tab in enumerate(item.tabs):
                by_id.update({key: (item, index) for key in (tab.id and f"#{tab.id}", tab.controls) if key})
    current: dict[int, Strip] = {}
    for item in sequence:
        if isinstance(item, Strip):
            if not item.radio:
                current[id(item.around)] = item
            continue
        found = by_id.get(item.id) or by_id.get(f"#{item.labelled_by}")
        strip = found[0] if found else item.strip or current.get(id(item.around))
        if strip is not None:
            _claim(strip, item, found[1] if found else None)
    for item in sequence:
        if isinstance(item, Strip):
            _label(item)


def _claim(strip: Strip, panel: Panel, index: int | None) -> None:
    if index is not None:
        _set(panel, strip, index)
    strip.panels.append(panel)


def _label(strip: Strip) -> None:
    shown: set[int] = set()
    unlabelled = [panel for panel in strip.panels if "label" not in panel.element.attrs]
    if unlabelled and len(strip.panels) == 1 and len(strip.tabs) > 1:
        index = next((place for place, tab in enumerate(strip.tabs) if tab.selected), 0)
        _set(unlabelled[0], strip, index)
    else:
        for index, panel in enumerate(strip.panels):
            if "label" not in panel.element.attrs and index < len(strip.tabs):
                _set(panel, strip, index)
    for panel in strip.panels:
        if "index" in panel.element.attrs:
            shown.add(int(panel.element.get("index")))
            panel.element.attrs["count"] = str(len(strip.tabs))
    missing = [tab.label for place, tab in enumerate(strip.tabs, 1) if place not in shown and tab.label]
    if strip.panels and missing:
        strip.panels[-1].element.attrs["missing"] = ", ".join(missing)


def _set(panel: Panel, strip: Strip, index: int) -> None:
    panel.element.attrs["label"] = strip.tabs[index].label
    panel.element.attrs["index"] = str(index + 1)
