"""Builds engines that behave as their options say; for tests of what watches engines."""
