"""The gate: two variants of a stack, measured side by side, and whether the second is worse."""
