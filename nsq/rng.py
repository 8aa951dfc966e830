"""Random numbers keyed by what they are for: (seed, ray id, bounce, event slot, offset)."""

import enum

import numpy as np

from kernels import rng as _device


class EventSlot(enum.IntEnum):
    """What a random number is drawn for. One slot, one purpose: no two decisions of a ray share a draw."""

    SOURCE_U1 = 0
    SOURCE_U2 = 1
    SOURCE_U3 = 2
    SOURCE_U4 = 3
    SOURCE_WAVELENGTH = 4
    FRESNEL_BRANCH = 5
    SCATTER_BRANCH = 6
    BSDF_U1 = 7
    BSDF_U2 = 8
    RR = 9
    BSDF_LOBE_BRANCH = 10
    PATH_SAMPLE = 11
    IMPORTANCE_BRANCH = 12
    FREE_PATH = 13
    PHASE_U1 = 14
    PHASE_U2 = 15


def pcg32_uint32(seed, ray_id, bounce, slot, offset=0):
    """32 random bits for each key.

    ``ray_id``, ``bounce`` and ``offset`` broadcast against each other; ``seed`` and ``slot`` are single integers.
    Returns a uint32 array of the broadcast shape, or a Python int when all three are scalars. Nothing is
    differentiable. Raises TypeError for anything but integers and ValueError for a negative bounce or offset.
    """
    keys = {"ray_id": ray_id, "bounce": bounce, "offset": offset}
    for name, value in keys.items():
        if np.asarray(value).dtype.kind not in "iu":
            raise TypeError(f"{name} must be an integer or an integer array, got {np.asarray(value).dtype}")
    for name in ("bounce", "offset"):
        if np.any(np.asarray(keys[name]) < 0):
            raise ValueError(f"{name} must not be negative, got {np.min(keys[name])}")
    steps = np.asarray(bounce, dtype=np.int64) + np.asarray(offset, dtype=np.int64)
    bits = _device.draw(int(seed), ray_id, steps, int(slot))
    return int(bits) if bits.ndim == 0 else bits


class NSQRng:
    """Uniform random numbers for one seed; ``None`` means seed 0, so no run is ever unrepeatable."""

    def __init__(self, seed=None):
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer)):
            raise TypeError(f"seed must be an int or None, got {type(seed).__name__}")
        self.seed = 0 if seed is None else int(seed)

    def uniform(self, ray_id, bounce, slot, offset=0):
        """Numbers in [0, 1), float64, shaped as `pcg32_uint32` says."""
        bits = pcg32_uint32(self.seed, ray_id, bounce, slot, offset)
        return np.asarray(bits, dtype=np.float64) / 2.0**32 if isinstance(bits, np.ndarray) else bits / 2.0**32

    def __repr__(self):
        return f"NSQRng(seed={self.seed})"
