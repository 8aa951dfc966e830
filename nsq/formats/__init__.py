"""Files of the trade."""
