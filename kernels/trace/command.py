"""A kernel launch recorded once and replayed often: cheaper than ``wp.launch``, and never on a user's tape."""

import copy
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
        # arrays must outlive the pointers to them
        self._inputs = [arguments[name] for name in self._names]
        self._gradients = None
        if adjoints is not None:
            self._gradients = [adjoints.get(name, arguments[name]) for name in self._names]
        self._dim, self._packed = 1, None
        device = wp.get_device(device)
        if device.is_cpu:
            self._launch, *packed = _pack(kernel, device, self._inputs, self._gradients)
            self._hold(*packed)
        else:
            self._launch = _record(kernel, device, self._inputs, self._gradients)

    def moved(self, arrays):
        """The same launch with other arrays: ``arrays`` has those to put in place, by the `id` of those there are."""
        other = copy.copy(self)
        other._inputs = [arrays.get(id(value), value) for value in self._inputs]
        if self._gradients is not None:
            other._gradients = [arrays.get(id(value), value) for value in self._gradients]
        if self._packed is None:
            other._launch = _record(self._launch.kernel, self._launch.device, other._inputs, other._gradients)
            return other
        entry, *pointed = self._packed
        pointed = [type(structure).from_buffer_copy(structure) for structure in pointed]
        for structure, now, before in zip(
            pointed[1:], (other._inputs, other._gradients), (self._inputs, self._gradients), strict=False
        ):
            for name, value, old in zip(self._names, now, before, strict=True):
                if value is not old:
                    setattr(structure, name, value.__ctype__())
        other._hold(entry, *pointed)
        return other

    def _hold(self, entry, *pointed):
        """Keep what a launch on a CPU takes: its entry point, bounds, arguments and, of an adjoint, its gradients."""
        self._packed = entry, *pointed
        self._call = functools.partial(entry, *map(ctypes.byref, pointed))

    def takes(self, name):
        """Whether the kernel has an argument of that name."""
        return name in self._names

    def change(self, changed):
        """New arguments, ``{name: value}``, for the launches that follow."""
        if self._packed is None:
            for name, value in changed.items():
                self._launch.set_param_at_index(self._names[name], value)
            return
        arguments = self._packed[2]
        for name, value in changed.items():
            if isinstance(value, wp.array):
                self._inputs[self._names[name]] = value
                value = value.__ctype__()
            setattr(arguments, name, getattr(value, "value", value))

    def run(self, dim, changed=None):
        """Launch over ``dim`` cells; new arguments stay for the launches that follow."""
        if changed:
            self.change(changed)
        if self._packed is None:
            if dim != self._dim:
                self._launch.set_dim(dim)
                self._dim = dim
            self._launch.launch()
            return
        bounds = self._packed[1]
        bounds.shape[0] = bounds.size = dim
        self._call()

    def addresses(self):
        """Where a launch on a CPU finds its entry point, bounds, arguments and gradients; 0 where there are none."""
        entry, *pointed = self._packed
        found = [ctypes.cast(entry, ctypes.c_void_p).value, *map(ctypes.addressof, pointed)]
        return found + [0] * (4 - len(found))


def _record(kernel, device, inputs, gradients):
    options = {}
    if gradients is not None:
        options = {"adj_inputs": gradients, "adj_outputs": [], "adjoint": True}
    return wp.launch(kernel, 1, inputs=inputs, device=device, record_cmd=True, record_tape=False, **options)


def _pack(kernel, device, inputs, gradients):
    """(launch, entry point, bounds, arguments, adjoint arguments if any) on a CPU, as Warp passes them."""
    adjoint = gradients is not None
    layout = _layouts.get((kernel, adjoint))
    if layout is None:
        # Warp checks the arguments and tells their types, which takes it long: so once for each kernel
        launch = _record(kernel, device, inputs, gradients)
        names, values = [argument.label for argument in kernel.adj.args], launch.params[1 : 1 + len(inputs)]
        fields = [(name, type(value)) for name, value in zip(names, values, strict=True)]
        structure = type("Arguments", (ctypes.Structure,), {"_fields_": fields})
        layout = _layouts[kernel, adjoint] = structure, type(launch.bounds)
    else:
        bounds = layout[1](1)
        # it finds the entry points and holds their module, which may have been loaded anew since
        launch = wp.Launch(kernel, device, params=[bounds], bounds=bounds, adjoint=adjoint)
    entry = launch.hooks.backward if adjoint else launch.hooks.forward
    types = [argument.type for argument in kernel.adj.args]
    filled = [layout[0](*map(_plain, types, values)) for values in (inputs, gradients) if values is not None]
    return launch, entry, launch.bounds, *filled


def _plain(kind, value):
    """What a field of a C structure takes of an argument of this kind."""
    if not isinstance(value, wp.array):
        return getattr(value, "value", value)
    if value.dtype is not kind.dtype:
        raise TypeError(f"an array of {value.dtype.__name__} for an argument of {kind.dtype.__name__}")
    return value.__ctype__()


# the C structures of the arguments and of the bounds of a launch, by kernel and whether it is the adjoint's
_layouts = {}
