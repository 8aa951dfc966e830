"""Two processes of one thread, joined by gloo, against one process of two threads: time, bits and gradients.

The singlet of `trace`, forward and backward. Times are medians of what the first process measures between barriers.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

RAYS, RUNS, MOST = 2_000_000, 5, 1.15

PROGRAM = """
import json, statistics, sys, time
import torch
import nsq, nsq.distributed
from benchmarks.trace import backward, singlet

rays, runs, threads = map(int, sys.argv[1:4])
several = threads == 1
if several:
    nsq.distributed.init("gloo")
backend = nsq.distributed.DistributedBackend() if several else nsq.TorchBackend()
nsq.set_num_threads(threads)
torch.set_num_threads(threads)

def forward():
    return singlet().trace(rays, seed=42, backend=backend).detectors["map"].data

def gradient():
    return backward(rays, lambda r1: singlet(r1).trace(rays, seed=42, backend=backend).detectors["map"].data)

def timed(function):
    function()
    seconds = []
    for _ in range(runs):
        if several:
            torch.distributed.barrier()
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)

told = {"forward": timed(forward), "forward + backward": timed(gradient), "gradient": gradient(),
        "bits": forward().detach().numpy().tobytes().hex()}
if not several or backend.rank == 0:
    print(json.dumps(told))
if several:
    torch.distributed.destroy_process_group()
"""


def run(processes, rays=RAYS, runs=RUNS):
    """What the first of some processes prints; together they have two threads."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    joined = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, "-c", PROGRAM, str(rays), str(runs), str(2 // processes)]
    started = [
        subprocess.Popen(
            command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True,
            env={**os.environ, **joined, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(processes)
    ]  # fmt: skip
    printed = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError("a process failed; its words are above")
    return json.loads(printed[0].splitlines()[-1])


def compare(rays=RAYS, runs=RUNS):
    one, two = run(1, rays, runs), run(2, rays, runs)
    for name in ("forward", "forward + backward"):
        ratio = two[name] / one[name]
        print(f"{name:20} {two[name]:.3f} s, one process {one[name]:.3f} s: {ratio:.2f} times   (at most {MOST:g})")
    gap = abs(two["gradient"] / one["gradient"] - 1.0)
    print(f"maps of the same bits: {one['bits'] == two['bits']}; gradients differ by {gap:.1e} (at most 1e-12)")
    return one["bits"] == two["bits"], gap


def main():
    print(__doc__.splitlines()[0])
    compare()


if __name__ == "__main__":
    main()
