"""How Sphinx makes the site; `make docs` (docs/decisions/documentation-site.md)."""

import importlib
import sys

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

import postrand

project = "postrand"
release = version = postrand.__version__
project_copyright = "the authors of postrand, Apache-2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
nitpicky = True  # each name that a docstring refers to must exist
myst_heading_anchors = 4  # as many levels as pages link to
nitpick_ignore_regex = [("py:class", r"(collections|contextlib|fractions|numpy|pathlib|pyarrow)\..*")]  # not ours
lexers["spss"] = TextLexer()  # Pygments has no lexer of SPSS

autodoc_typehints = "none"  # docstrings say what is taken, with shapes and units
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
add_module_names = False
napoleon_use_rtype = False

html_theme = "pydata_sphinx_theme"
html_title = "postrand"
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_search_summary = False  # it would fetch pages, which a browser refuses where the site is a folder of files
html_context = {"default_mode": "auto"}  # light or dark as the reader's system
html_sidebars = {name: [] for name in ("index", "genindex", "py-modindex", "search")} | {"**": ["section.html"]}
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "article_header_start": ["breadcrumbs"],
}


def known(app, env, node, content):
    """Return a link to an entry that has another name here, or plain words for what exists and has no entry.

    A name that is nowhere in the package stays unresolved, which is an error.
    """
    name = node["reftarget"].removeprefix("~").lstrip(".")
    held = env.domains.python_domain.objects
    ends = sorted(
        (full for full in held if full == name or full.endswith(f".{name}")), key=lambda full: (len(full), full)
    )
    if ends:
        return env.domains.python_domain.resolve_xref(env, node["refdoc"], app.builder, "obj", ends[0], node, content)
    return nodes.inline("", "", content) if exists(name, node.get("py:module")) else None


def exists(name, module):
    """Say whether the package has a module or an object of this name."""
    first = name.split(".")[0]
    loaded = [held for path, held in sorted(sys.modules.items()) if path.split(".")[0] == "postrand"]
    starts = [held for held in loaded if hasattr(held, first)] if first != "postrand" else [postrand]
    return any(reached(start, name.removeprefix("postrand.")) for start in starts)


def reached(start, name):
    """Say whether a name leads from a module to something, through modules that are loaded on the way."""
    for part in name.split("."):
        if not hasattr(start, part):
            try:
                importlib.import_module(f"{start.__name__}.{part}")
            except (ImportError, AttributeError):
                return False
        start = getattr(start, part, None)
    return start is not None


def hidden(app, what, name, held, options, lines):
    """Hide the colons of a property's first line: Napoleon takes what stands before one for a type."""
    if what in ("attribute", "data", "property") and lines:
        lines[0] = lines[0].replace(":", "\0")


def shown(app, what, name, held, options, lines):
    """Show what ``hidden`` hid."""
    lines[:] = [line.replace("\0", ":") for line in lines]


def setup(app):
    """Ask ``known`` where a reference leads nowhere; stand before and behind Napoleon, whose priority is 500."""
    app.connect("missing-reference", known)
    app.connect("autodoc-process-docstring", hidden, priority=400)
    app.connect("autodoc-process-docstring", shown, priority=600)
