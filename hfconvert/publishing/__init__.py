"""A run that publishes: whether it may, what is done already, and one commit for what was proved."""
