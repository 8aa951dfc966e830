"""A kernel launch recorded once and replayed often: cheaper than ``wp.launch``, and never on a user's tape."""

import ctypes
import functools

import warp as wp


class Command:
    """``run(dim, {name: value})`` launches with a new size and new arguments.

    Warp packs a recorded launch's arguments anew at every launch, which for a kernel of forty arguments takes longer
    than a small batch of rays. On a CPU they are packed here once, and only what changes is written. Kernels are
    launched over one dimension.
    """

    def __init__(self, kernel, device, arguments, adjoints=None):
        self._names = {argument.label: position for position, argument in enumerate(kernel.adj.args)}
        inputs = [arguments[name] for name in self._names]
        options = {}
        if adjoints is not None:
            gradients = [adjoints.get(name, arguments[name]) for name in self._names]
            options = {"adj_inputs": gradients, "adj_outputs": [], "adjoint": True}
        self._launch = wp.launch(kernel, 1, inputs=inputs, device=device, record_cmd=True, record_tape=False, **options)
        self._dim = 1
        # arrays must outlive the pointers to them
        self._kept = {"inputs": inputs, "options": options}
        self._packed = _pack(self._launch, self._names) if self._launch.device.is_cpu else None

    def takes(self, name):
        """Whether the kernel has an argument of that name."""
        return name in self._names

    def run(self, dim, changed=None):
        """Launch over ``dim`` cells; new arguments stay for the launches that follow."""
        if self._packed is None:
            if dim != self._dim:
                self._launch.set_dim(dim)
                self._dim = dim
            for name, value in (changed or {}).items():
                self._launch.set_param_at_index(self._names[name], value)
            self._launch.launch()
            return
        entry, arguments, gradients = self._packed
        bounds = self._launch.bounds
        bounds.shape[0] = bounds.size = dim
        for name, value in (changed or {}).items():
            if isinstance(value, wp.array):
                self._kept[name] = value
                value = value.__ctype__()
            setattr(arguments, name, getattr(value, "value", value))
        if gradients is None:
            entry(ctypes.byref(bounds), ctypes.byref(arguments))
        else:
            entry(ctypes.byref(bounds), ctypes.byref(arguments), ctypes.byref(gradients))


def _pack(launch, names):
    """(entry point, arguments, adjoint arguments or None) of a recorded launch on a CPU, as Warp passes them."""
    count = len(names)
    forward = launch.params[1 : 1 + count]
    if not launch.adjoint:
        return launch.hooks.forward, _structure(names, forward), None
    return launch.hooks.backward, _structure(names, forward), _structure(names, launch.params[1 + count :])


def _structure(names, values):
    """A C structure of named values."""
    return _structure_type(tuple(zip(names, map(type, values), strict=True)))(*values)


@functools.cache
def _structure_type(fields):
    """The C structure of these (name, type)."""
    return type("Arguments", (ctypes.Structure,), {"_fields_": list(fields)})
