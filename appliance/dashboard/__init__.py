"""The web pages: built files and the rules that browsers are given with them; they use REST alone."""
