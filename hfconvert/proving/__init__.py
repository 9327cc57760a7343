"""Which checks a conversion needs, with what they compare, and in which order they are reported."""
