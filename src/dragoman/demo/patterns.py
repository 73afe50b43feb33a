"""A regular expression in, a text that matches it out: the plain part of the language, as schemas use it."""

_CLASSES = {"d": "0", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a", "t": "\t", "n": "\n", "r": "\r"}
_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_.:/@"


def example_of(pattern: str, more: int = 1, /) -> str:
    """A text that matches; what may repeat without end does so about `more` times.

    >>> example_of("^[A-Z]{2}-[0-9]{3}$"), example_of("(cat|dog)s?"), example_of("a+", 3)
    ('AA-000', 'cat', 'aaa')
    """
    return _Reader(pattern, max(more, 1)).alternatives()


class _Reader:
    def __init__(self, pattern: str, more: int) -> None:
        self._pattern = pattern
        self._more = more
        self._at = 0

    def alternatives(self) -> str:
        """The first of some alternatives; the others are read and forgotten."""
        found = self._sequence()
        while self._peek() == "|":
            self._at += 1
            self._sequence()
        return found

    def _sequence(self) -> str:
        text = ""
        while (next_up := self._peek()) and next_up not in "|)":
            atom = self._atom()
            text += atom * self._times()
        return text

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        self._at += 1
        return self._pattern[self._at - 1 : self._at]

    def _atom(self) -> str:
        match taken := self._take():
            case "^" | "$":
                return ""
            case ".":
                return "a"
            case "\\":
                return self._escape(self._take())
            case "[":
                return self._set()
            case "(":
                return self._group()
            case _:
                return taken

    def _escape(self, letter: str) -> str:
        if letter in ("b", "B", "A", "Z", "z"):
            return ""
        if letter == "p" and self._peek() == "{":
            self._skip_past("}")
            return "a"
        return _CLASSES.get(letter, letter)

    def _group(self) -> str:
        ahead = self._pattern.startswith(("?=", "?!", "?<=", "?<!"), self._at)
        if self._peek() == "?":
            self._skip_past(":" if self._pattern.startswith("?:", self._at) else ">" if not ahead else "=!")
        inside = self.alternatives()
        self._take()
        return "" if ahead else inside

    def _skip_past(self, ends: str) -> None:
        while (taken := self._take()) and taken not in ends:
            continue

    def _set(self) -> str:
        negated = self._peek() == "^"
        if negated:
            self._take()
        members: list[str] = []
        while (taken := self._take()) and (taken != "]" or not members):
            member = self._escape(self._take()) if taken == "\\" else taken
            if self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._take()
                last = self._take()
                last = self._escape(self._take()) if last == "\\" else last
                members += [chr(code) for code in range(ord(member), min(ord(last), ord(member) + 200) + 1)]
            else:
                members.append(member)
        if not negated:
            return members[0] if members else ""
        return next((letter for letter in _ALPHABET if letter not in members), "~")

    def _times(self) -> int:
        match self._peek():
            case "?":
                least, most = 0, 1
            case "*":
                least, most = 0, self._more
            case "+":
                least, most = 1, self._more
            case "{" if self._pattern[self._at + 1 : self._at + 2].isdigit():
                return self._counted()
            case _:
                return 1
        self._take()
        if self._peek() in ("?", "+"):
            self._take()
        return min(max(least, self._more - 1 if least == 0 else self._more), most)

    def _counted(self) -> int:
        self._take()
        inside = ""
        while (taken := self._take()) and taken != "}":
            inside += taken
        least, comma, most = inside.partition(",")
        if not comma:
            return int(least)
        return max(int(least), min(self._more, int(most) if most else self._more))
