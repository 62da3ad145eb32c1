"""Test-time adaptation with a multi-cluster memory."""
