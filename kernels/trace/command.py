"""A kernel launch recorded once and replayed often: a fifth of the cost of ``wp.launch``, and never on a user's
tape.
"""

import warp as wp


class Command:
    """``run(dim, {name: value})`` launches with a new size and new scalar arguments."""

    def __init__(self, kernel, device, arguments, adjoints=None):
        self._names = {argument.label: position for position, argument in enumerate(kernel.adj.args)}
        inputs = [arguments[name] for name in self._names]
        options = {}
        if adjoints is not None:
            options = {"adj_inputs": [adjoints.get(name, arguments[name]) for name in self._names],
                       "adj_outputs": [], "adjoint": True}  # fmt: skip
        self._launch = wp.launch(kernel, 1, inputs=inputs, device=device, record_cmd=True, record_tape=False, **options)

    def run(self, dim, changed=None):
        if changed:
            for name, value in changed.items():
                self._launch.set_param_at_index(self._names[name], value)
        self._launch.set_dim(dim)
        self._launch.launch()
