"""Every kernel is built once, before lanes start: one that joins a loaded module on a thread races with launches."""

from collections import Counter

import warp as wp

import nsq

CS = nsq.CoordinateSystem


def test_no_kernel_is_built_twice():
    flat = nsq.IrradianceDetectorConfig(8.0, 8.0, 4, 4, absorb=False)
    curved = nsq.FarFieldDetectorConfig(num_theta=4, num_phi=4)
    for configs in ((flat,), (flat, flat), (flat, curved)):
        scene = nsq.NSQScene()
        scene.add_source("S", CS(), nsq.CollimatedSourceConfig(nsq.Spectrum.monochromatic(0.55)))
        for k, config in enumerate(configs):
            scene.add_detector(f"D{k}", CS(z=10.0 + k), config)
        assert scene.trace(500, seed=1).total_flux_detected > 0.9
    builds = Counter(kernel.key for kernel in wp.get_module("kernels.trace.float64")._live_kernels)
    assert [name for name, count in builds.items() if count > 1] == []
