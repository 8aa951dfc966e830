"""``nsq`` needs the package ``kernels`` that comes with it; other distributions use that name too."""

from __future__ import annotations


def check_kernels() -> None:
    """Raise ImportError naming the file of a ``kernels`` package that is not this project's."""
    try:
        import kernels
    except ModuleNotFoundError as error:
        if error.name != "kernels":
            raise
        raise ImportError("nsq needs the package 'kernels' that is installed with it, and there is none") from error
    if getattr(kernels, "PROJECT", None) != "nsq":
        where = getattr(kernels, "__file__", None) or list(getattr(kernels, "__path__", []))
        raise ImportError(
            f"nsq needs the package 'kernels' that is installed with it, but {where} comes first on the path;"
            " remove or rename that one, or put the folder that holds nsq before it in sys.path"
        )
