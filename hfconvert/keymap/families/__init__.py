"""Families: tables of steps for one kind of checkpoint. A table is a YAML file here, and no code.

What a table may say is in `table.py`; CONTRIBUTING shows how to add one.
"""
