"""The text of a program for a companion: a few of our modules, and the one whose `main` it runs.

It runs in an image that has Python and nothing of ours, so the modules travel in the text. They use the standard
library alone.
"""

from __future__ import annotations

from importlib import resources

# In the order in which they import each other.
SHARED = (
    "sandboxd.inside.netlink",
    "sandboxd.inside.sockets",
    "sandboxd.egress.plant.closed",
    "sandboxd.egress.plant.mux",
)

LOADER = """
import sys, types
def load(name, text=""):
    parent, _, last = name.rpartition(".")
    if parent and parent not in sys.modules:
        load(parent)
    module = types.ModuleType(name)
    module.__path__ = []
    sys.modules[name] = module
    if parent:
        setattr(sys.modules[parent], last, module)
    exec(compile(text, name, "exec"), module.__dict__)
    return module
if sys.version_info < (3, 10):
    sys.exit("Python %d.%d is too old, 3.10 is needed" % sys.version_info[:2])
"""


def program(main: str) -> str:
    """The program that loads the shared modules and runs `main()` of the module named."""
    lines = [f"load({name!r}, {_source(name)!r})" for name in SHARED]
    return "\n".join([LOADER, *lines, f"load({main!r}, {_source(main)!r}).main()"])


def _source(name: str) -> str:
    package, _, module = name.rpartition(".")
    return resources.files(package).joinpath(f"{module}.py").read_text(encoding="utf-8")
