"""What a stack must get right; run by stackproof, never by hand."""
