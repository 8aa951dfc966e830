"""Warp device code shared by ``nsq`` and ``bvh``.

The package knows neither scenes nor handles: it holds Warp functions, kernels and their launchers.
``PROJECT`` lets the packages above tell this ``kernels`` from another distribution's.
"""

PROJECT = "nsq"
