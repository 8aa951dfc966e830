"""Doors to other packages: `nsq.adapters.optiland` for scenes made with Optiland. Each is imported when it is used."""
