"""The `architecture` check: whether the class that `config.json` names can load what will be written."""
