"""What is said of each kind of finding: its sentence, its evidence, what would prove it wrong."""
