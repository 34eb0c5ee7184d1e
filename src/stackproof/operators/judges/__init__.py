"""Judges: relations that hold for any operator that meets their condition."""
