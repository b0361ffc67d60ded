"""Text that people read: amounts, tables, paper, templates."""
