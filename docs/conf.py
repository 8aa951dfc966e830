"""Sphinx: `make docs` builds the pages of this folder, an API reference and a gallery into docs/_build/html.

The gallery runs every example, and a check of an example that fails ends the build.
"""

import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import warp  # noqa: E402

import bvh  # noqa: E402
import nsq  # noqa: E402

project = "nsq"
author = "the nsq authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "nsq"
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "undoc-members": False, "show-inheritance": True}
napoleon_use_ivar = True
napoleon_use_rtype = False
myst_heading_anchors = 3
autodoc_inherit_docstrings = False  # those of torch and enum refer to pages of their own
# pages link to files of the repository that are no pages; "name" and "N" are attributes of many classes; a page that is
# not in the index yet is found by its links
suppress_warnings = ["myst.xref_missing", "ref.python", "toc.not_included"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"^_",
    "copyfile_regex": r"_\w+\.py",  # what the examples share
    "notebook_extensions": (),  # the examples are programs
    "download_all_examples": False,
    "write_computation_times": False,
    "show_signature": False,
    "reset_argv": "gallery_arguments.arguments",
    "abort_on_example_error": True,
}
warp.config.log_level = warp.LOG_ERROR  # what it says of compilation would stand in the pages


# ---- the API reference is made of the packages ----------------------------------------------------------------------


def directive(module, name):
    value = getattr(module, name)
    kind = "autoclass" if inspect.isclass(value) else "autofunction" if inspect.isroutine(value) else "autodata"
    return f".. {kind}:: {module.__name__}.{name}\n"


def api_page():
    """Every public name, one section a module."""
    parts = ["# API reference\n"]
    for module, names in nsq._EXPORTS.items():
        title = (sys.modules.get(f"nsq.{module}") or __import__(f"nsq.{module}", fromlist=["_"])).__doc__
        parts.append(f"## nsq.{module}\n\n{title.strip().splitlines()[0]}\n\n```{{eval-rst}}")
        parts += [*(directive(nsq, name) for name in names), "```\n"]
    for title, path in (("nsq.warp", "nsq.warp"), ("nsq.spectra", "nsq.spectra"), ("bvh.warp", "bvh.warp")):
        module = __import__(path, fromlist=["_"])
        own = getattr(module, "__all__", None) or [
            n for n, value in vars(module).items() if getattr(value, "__module__", "") == path and not n.startswith("_")
        ]
        parts.append(f"## {title}\n\n```{{eval-rst}}")
        parts += [*(directive(module, name) for name in own), "```\n"]
    parts.append("## bvh\n\n```{eval-rst}")
    parts += [*(directive(bvh, name) for name in bvh.__all__ if not name.startswith("_")), "```\n"]
    return "\n".join(parts)


def generate(app):
    path, text = Path(app.srcdir) / "api.md", api_page()
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


# ---- docstrings are plain prose: what RST would take for markup is not ----------------------------------------------


def plain(app, what, name, obj, options, lines):
    """Escape bars, stars and trailing underscores outside of code."""
    literal = False
    for k, line in enumerate(lines):
        if literal and line.strip() and not line.startswith(" "):
            literal = False
        if not literal:
            parts = re.split(r"(``.*?``|`.*?`)", line)
            for i in range(0, len(parts), 2):
                parts[i] = re.sub(r"([|*])", r"\\\1", parts[i])
                parts[i] = re.sub(r"(\w)_(?=\W|$)", r"\1\\_", parts[i])
            lines[k] = "".join(parts)
        literal = literal or line.rstrip().endswith("::")


def setup(app):
    app.connect("builder-inited", generate)
    app.connect("autodoc-process-docstring", plain, priority=100)
