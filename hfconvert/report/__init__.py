"""What a run did and found, as a value; and the forms in which people and programs read it."""
