"""Guard against another distribution's top-level ``kernels`` package."""

import kernels


def check_kernels():
    """Raise ImportError if the ``kernels`` package that Python found is not the one ``bvh`` is written for."""
    if getattr(kernels, "PROJECT", None) != "nsq":
        found = getattr(kernels, "__file__", None) or list(getattr(kernels, "__path__", []))
        raise ImportError(f"bvh needs its own 'kernels' package, but Python found another one first: {found}")
