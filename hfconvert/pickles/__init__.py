"""The inert unpickler: reads what a pickle describes, imports nothing, calls nothing that the file names.

The opcodes are those of pickle protocols 0 to 5, as the `pickletools` module of CPython documents them.
"""
