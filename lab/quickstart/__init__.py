"""The archive that ``dph quickstart`` unpacks, and how it is made."""
