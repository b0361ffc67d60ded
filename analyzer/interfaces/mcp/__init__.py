"""An MCP server over the ledger: it reads, it reckons plans, and it changes nothing. The only importer of mcp."""
