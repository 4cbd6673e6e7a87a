"""Named stores: answers of the initial policy with its next-token distributions at every token."""
