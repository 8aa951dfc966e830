"""Detectors: one file a row."""
