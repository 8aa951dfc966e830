"""Spectral luminous efficiency of the standard observers, every 10 nm."""

from __future__ import annotations

import numpy as np

FIRST_UM, LAST_UM, STEP_UM = 0.38, 0.78, 0.01

# CIE 1931 y bar, which is the CIE 1924 V(lambda) (ISO/CIE 11664-1)
_PHOTOPIC = """
    0.000039 0.00012 0.000396 0.00121 0.004 0.0116 0.023 0.038 0.06 0.09098
    0.13902 0.20802 0.323 0.503 0.71 0.862 0.954 0.99495 0.995 0.952
    0.87 0.757 0.631 0.503 0.381 0.265 0.175 0.107 0.061 0.032
    0.017 0.00821 0.004102 0.002091 0.001047 0.00052 0.0002492 0.00012 0.00006 0.00003
    0.00001499
"""

# CIE 1951 V'(lambda) (ISO 23539 / CIE S 010)
_SCOTOPIC = """
    0.000589 0.002209 0.00929 0.03484 0.0966 0.1998 0.3281 0.455 0.567 0.676
    0.793 0.904 0.982 0.997 0.935 0.811 0.65 0.481 0.3288 0.2076
    0.1212 0.0655 0.03315 0.01593 0.00737 0.003335 0.001497 0.000677 0.0003129 0.000148
    0.0000715 0.00003533 0.0000178 0.00000914 0.00000478 0.000002546 0.000001379 0.00000076 0.000000425 0.0000002413
    0.000000139
"""


def _table(text: str) -> np.ndarray:
    values = np.array(text.split(), dtype=np.float64)
    values.flags.writeable = False
    return values


PHOTOPIC, SCOTOPIC = _table(_PHOTOPIC), _table(_SCOTOPIC)
