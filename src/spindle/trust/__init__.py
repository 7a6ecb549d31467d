"""What a model may believe: labels, and fences that what they hold cannot leave; open `envelope.py` first."""
