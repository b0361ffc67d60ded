"""Single runs made step by step, with what is true of each second, and how right the ledger is about them."""
