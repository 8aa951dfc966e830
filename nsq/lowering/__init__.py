"""Lowering: from the objects of a scene to flat tensors, one module for each kind of object."""
