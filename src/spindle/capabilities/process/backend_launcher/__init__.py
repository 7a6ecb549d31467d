"""The program that confines a command and then starts it. Imports nothing but itself, to start fast."""
