"""Shapes: one file a row, each with its nearest root, its implicit function and the gradient of that."""
