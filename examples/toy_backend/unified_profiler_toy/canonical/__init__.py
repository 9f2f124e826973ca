"""Canonical operators of native names."""
