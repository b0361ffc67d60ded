"""Which of several collectors an agent's stream belongs to, and what becomes of what another took before."""
