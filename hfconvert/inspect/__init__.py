"""What a folder or file is: facts, read from headers and pickles without loading a tensor."""
