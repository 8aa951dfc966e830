"""Measurements of this project against its peers, each in the same run on the same machine."""
