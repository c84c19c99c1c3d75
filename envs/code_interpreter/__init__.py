"""CodeInterpreter: a question, a Python interpreter to work it out with, and one answer."""
