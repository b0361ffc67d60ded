"""The capacity profile: what is measured of the runs that a request stands on, signed by who measured it."""
