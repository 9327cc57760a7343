"""What is proved of a result. Every check opens the files afresh and shares no code with the writer."""
