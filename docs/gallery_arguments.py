"""Arguments of the examples when the gallery runs them, in a module, since Sphinx wants the name of the function."""

import os
from pathlib import Path


def arguments(gallery_conf, script_vars):
    """Every example as it is, its own copy of the figure out of the way; the pages show no path of this machine."""
    example = Path(script_vars["src_file"])
    figures = os.path.relpath(Path(gallery_conf["src_dir"]) / "_build" / "figures", example.parent)
    return ["--out", str(Path(figures) / f"{example.stem}.png")]
