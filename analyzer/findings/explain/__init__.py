"""Why a finding says what it says: its signs against their marks, what was ruled out, and the plot it stands on."""
