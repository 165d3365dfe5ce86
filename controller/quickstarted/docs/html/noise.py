"""What on a page is not the page: navigation, footers, copy buttons, permalinks, text for screen readers only."""

from __future__ import annotations

from quickstarted.docs.html.names import names_of, words

DROPPED_TAGS = words(
    "script style template svg math-ml button nav footer canvas dialog input select textarea option object embed "
    "audio video map noscript head link meta title clipboard-copy noframes colgroup datalist"
)
_DROPPED_ROLES = words(
    "navigation search banner contentinfo complementary dialog alertdialog menu menubar toolbar tooltip"
)
# Class names and ids, whole words; a CSS module's hash is cut off first.
_DROPPED_NAMES = words(
    # permalinks
    "headerlink hash-link header-anchor sl-anchor-link anchorjs-link permalink heading-anchor anchor-link direct-link "
    "anchor-heading heading-link anchor-icon "
    # copy buttons and toolbars
    "copybtn copy-button copy-btn btn-copy clipboard-button md-clipboard zeroclipboard-container buttongroup "
    "code-copy copy-code copy-code-button code-toolbar-buttons test-arrow notable-traits toolbar code-block-buttons "
    # for screen readers only
    "sr-only visually-hidden visuallyhidden screen-reader-text screen-reader-only sr-text skip-link skip-to-content "
    "skiplink "
    # tables of contents beside the page
    "toc table-of-contents tableofcontents theme-doc-toc-mobile theme-doc-toc-desktop toc-drawer toc-sidebar "
    "tocsidebar bd-toc bd-sidebar-secondary td-toc on-this-page vp-doc-aside vpdocaside "
    # places in the site
    "breadcrumb breadcrumbs theme-doc-breadcrumbs wy-breadcrumbs bd-breadcrumbs pagination-nav pagination pager "
    "prev-next-area prev-next-footer prev-next related related-pages rst-footer-buttons rst-versions sphinxsidebar "
    "sidebar-drawer wy-nav-side md-sidebar md-header md-tabs md-footer md-source md-source-file navbar nav-links "
    "bd-sidebar-primary bd-header bd-header-article bd-footer bd-footer-content bd-footer-article td-sidebar "
    "td-page-meta vpnav vpsidebar vplocalnav vpdocfooter vpfooter site-footer site-header mobile-header "
    "content-icon-container back-to-top nav global-nav navheader navfooter "
    # about the page, not of it
    "edit-this-page theme-edit-this-page edit-link editlink edit-page last-updated theme-last-updated theme-doc-footer "
    "theme-doc-version-badge feedback docs-feedback page-feedback giscus cookie-banner cookie-consent announcement-bar "
    "announcementbar reading-time share-buttons article-container-tools footer page-footer"
)


def is_noise(tag: str, attrs: dict[str, str | None]) -> bool:
    """Whether an element with everything in it is left out."""
    if tag in DROPPED_TAGS:
        return True
    if not attrs:
        return False
    role = attrs.get("role")
    if role and role in _DROPPED_ROLES:
        return True
    if _DROPPED_NAMES & names_of(attrs):
        return True
    name = attrs.get("id")
    return bool(name) and name in _DROPPED_NAMES and tag not in ("h1", "h2", "h3", "h4", "h5", "h6", "section")


def is_hidden(attrs: dict[str, str | None]) -> bool:
    """Whether a reader can't see it when the page opens: also tabs that are not in front."""
    if "hidden" in attrs or attrs.get("aria-hidden") == "true":
        return True
    style = attrs.get("style")
    return style is not None and "display:none" in style[:500].replace(" ", "").lower()
