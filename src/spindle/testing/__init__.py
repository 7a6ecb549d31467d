"""What tests of tools and turns need: shipped for users, and used by our own tests."""
