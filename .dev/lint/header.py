"""Reads the public C header: its functions, and the comment that stands before each."""

import re

# A documentation comment, then the declaration that it belongs to. Comments before other things are skipped over.
DECLARATION = re.compile(r"(?:/\*\*((?:(?!\*/).)*)\*/\s*)?^BANTER_API\s+([^;{]*?)\b(banter_[a-z0-9_]+)\s*\(([^;{]*?)\)\s*;", re.S | re.M)


def functions(text):
    """List of (name, return type, arguments, comment without decoration and with single spaces, line number)."""
    found = []
    for match in DECLARATION.finditer(text):
        comment, result, name, parameters = match.groups()
        comment = re.sub(r"\s*\n\s*\*?\s*", " ", comment or "").strip()
        result = " ".join(result.replace("BANTER_CALL", " ").split())
        found.append((name, result, " ".join(parameters.split()), comment, text.count("\n", 0, match.start(3)) + 1))
    return found


def uses_of_api_macro(text):
    """How many declarations carry BANTER_API, however they are written: what functions() must have found."""
    return len(re.findall(r"^\s*BANTER_API\b", text, re.M))
