"""What a running trace shows, and how its lanes stop each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def stopping(task: Callable[[], Any], stop: threading.Event) -> Callable[[], Any]:
    """A task that tells the others to stop when it fails or is interrupted."""

    def guarded() -> Any:
        try:
            return task()
        except BaseException:
            stop.set()
            raise

    return guarded


class Progress:
    """A bar over rays when asked for, and the flag by which lanes stop each other.

    ``done`` rays of ``num_rays`` are behind it already.
    """

    def __init__(self, shown: bool, num_rays: int, done: int = 0) -> None:
        self._shown, self._num_rays, self._begin = shown, num_rays, done
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._bar = None

    def __enter__(self) -> Progress:
        if self._shown:
            from tqdm.auto import tqdm  # a trace that shows nothing need not load it

            bar = {"total": self._num_rays, "initial": self._begin, "unit": "ray", "unit_scale": True}
            self._bar = tqdm(desc="trace", **bar)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.close()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def check(self) -> None:
        if self._stop.is_set():
            raise InterruptedError("another lane of this trace failed or was interrupted")

    def done(self, rays: int) -> None:
        if self._bar is not None:
            with self._lock:
                self._bar.update(rays)

    def reach(self, rays: int) -> None:
        """Put the bar where ``rays`` rays are done."""
        if self._bar is not None:
            with self._lock:
                self._bar.update(rays - self._bar.n)

    def guard(self, task: Callable[[], Any]) -> Callable[[], Any]:
        return stopping(task, self._stop)
