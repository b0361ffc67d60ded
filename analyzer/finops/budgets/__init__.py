"""What teams and projects may spend a month, what they have spent, and where the month will end."""
