"""From a description in words to a task file that a person confirms; the model only understands, it solves nothing."""
