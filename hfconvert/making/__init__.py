"""From a plan to a folder: shards made block by block, everything checked, nothing half-made left behind."""
