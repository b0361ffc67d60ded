"""Sites that grow old by a drawn schedule of kills, and every reading of them before and after."""
