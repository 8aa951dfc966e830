"""Rays of a file, each drawn with a probability in proportion to its flux, so that all carry the same flux.

The table of n rays: n, the running sum of flux (n, ending at 1), x, y, z (mm), L, M, N and the number of the spectral
line, n each.
"""

import warp as wp

from kernels.precision import DOUBLES, bundle
from kernels.rng import uniform_of
from kernels.sobol import bits_of
from kernels.sources.steps import first_above

NAME = "ray_file"
TABLE = True
IN_SPACE = True
COLUMNS = 7  # after the running sum


def build(precision, sobol=False):
    real = bundle(precision).real
    bits1 = bits_of(0, sobol)
    uniform, find = uniform_of("float64"), first_above()

    @wp.func
    def variates(id: wp.uint64, init: wp.uint64, table: DOUBLES, block: int, p0: real, p1: real, p2: real, p3: real):
        """A ray without flux is never drawn: its running sum does not exceed that of the ray before."""
        n = int(table[block])
        k = block + 1 + find(table, block + 1, n, uniform(bits1(id, init)))
        return (
            real(table[k + n]),
            real(table[k + 2 * n]),
            real(table[k + 3 * n]),
            real(table[k + 4 * n]),
            real(table[k + 5 * n]),
            real(table[k + 6 * n]),
            real(table[k + 7 * n]),
        )

    return variates, None
