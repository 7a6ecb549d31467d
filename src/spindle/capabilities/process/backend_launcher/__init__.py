"""The program that confines a command and then starts it; it imports no other module of spindle, to start fast."""
