"""Catalogues of prices become rows of a price file, dated and with their source, for a person to look over."""
