"""What reads files that need not be trustworthy, with inputs that atheris finds."""
