"""HTML to Markdown that a model can act on. Pure: text in, values out; no socket, no clock, no recursion.

A page goes through four steps, one file each: `guard` defuses markup that would make a parser slow, `pick` finds the
main content in lexbor's tree, `read` makes a small tree of our own from it (noise left out, code blocks, tabs and
admonitions already plain), and `writer` writes that tree down. `convert` strings them together.

Every walk is a loop with its own stack: a page's depth is the page's choice, Python's recursion limit is not.
"""
