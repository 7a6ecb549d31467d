"""The attacks of each domain: the text that is planted, the calls of a hijacked model, and its goal."""
