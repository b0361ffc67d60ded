"""How people ask the agent to let a host or a GPU be for a while."""
