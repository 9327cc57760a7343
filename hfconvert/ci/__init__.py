"""What the GitHub Action calls: from its inputs and event to outputs, annotations and a summary."""
