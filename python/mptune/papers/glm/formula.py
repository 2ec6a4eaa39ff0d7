"""Model strings such as "T ~ B + B^2 + CC + B:CC": text to terms, and back.

The string is data. It is read by the grammar below and never evaluated::

    model   = name "~" sum
    sum     = ["+" | "-"] product { ("+" | "-") product }      "- 1" and "+ 0" leave the intercept out
    product = cross { "*" cross }                              a * b is a + b + a:b
    cross   = power { ":" power }                              a:b is the product of both
    power   = atom [ "^" digit ]                               B^2 is the square; (a + b)^2 is a + b + a:b
    atom    = name | "log" "(" name ")" | "sqrt" "(" name ")" | "(" sum ")" | "0" | "1"

The signs mean what they mean in R and in the MODEL statement of SAS, except that `B^2` is the square of a
number column, as people write it (R needs I(B^2), SAS B*B). Which names are columns, and which of these hold
numbers or levels, is not known here.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from mptune._text import quoted
from mptune.errors import InputError

#: A product of columns: (name, power) in the order of their first appearance; () is the intercept.
Product = tuple[tuple[str, int], ...]

#: Functions of a number column, by their names in a model.
FUNCTIONS = ("log", "sqrt")

#: Longest string, most terms, highest power, deepest parentheses: beyond any model that data could support,
#: and they bound the work.
_LONGEST, _TERMS, _POWER, _DEEPEST = 1000, 100, 9, 10

_TOKEN = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_.]*)|(\d+(?:\.\d*)?)|([-+:*^()~]))", re.ASCII)


class Formula(msgspec.Struct, frozen=True, kw_only=True):
    """A response and the terms that explain it.

    Attributes
    ----------
    terms : in the order in which they were written, which is the order of Type I sums of squares.
    """

    response: str
    terms: tuple[Product, ...]
    intercept: bool = True

    def names(self) -> tuple[str, ...]:
        """Columns of the terms, each once; those of functions without the function."""
        return tuple(dict.fromkeys(column_of(name) for term in self.terms for name, _ in term))

    def __str__(self) -> str:
        words = [term_name(term) for term in self.terms]
        return f"{self.response} ~ {' + '.join(words if self.intercept else ['0', *words]) or '1'}"


def term_name(term: Product) -> str:
    """Name of a term, as a model string has it: "B^2:CC"."""
    return ":".join(name if power == 1 else f"{name}^{power}" for name, power in term)


def column_of(name: str) -> str:
    """Column of a name: "log(B)" is made of B."""
    return name.partition("(")[2][:-1] or name


def parse(text: str, where: str = "--model") -> Formula:
    """Read a model string.

    Parameters
    ----------
    where : option that has the string, for errors.

    Raises
    ------
    InputError : it does not follow the grammar, or has too many terms.
    """
    if len(text) > _LONGEST:
        raise InputError(where, "", f"expected at most {_LONGEST} characters, found {len(text)}")
    return _Reader(text, where).formula()


class _Reader:
    """Recursive descent over the tokens; a sum is a list of products, the empty one being the intercept."""

    def __init__(self, text: str, where: str) -> None:
        self._text, self._where = text, where
        self._tokens = list(self._split())
        self._at = 0
        self._depth = 0

    def formula(self) -> Formula:
        """Everything."""
        response = self._name("a column before ~, as in T ~ B + CC")
        self._expect("~")
        kept, dropped = self._sum()
        if self._peek():
            raise self._error("+, -, :, * or ^ between terms")
        terms = _distinct(term for term in kept if term)
        if any(power > _POWER for term in terms for _, power in term):
            raise InputError(self._where, "", f"expected powers of at most {_POWER}, found more")
        if any(column_of(name) == response for term in terms for name, _ in term):
            raise InputError(self._where, "", f"expected {response} on one side of ~ only")
        return Formula(response=response, terms=tuple(terms), intercept=not dropped)

    def _sum(self) -> tuple[list[Product], bool]:
        """Terms, and whether the intercept is left out."""
        terms: list[Product] = []
        without = False
        sign = self._take() if self._peek() in ("+", "-") else "+"
        while True:
            if sign == "-":
                if self._take() != "1":
                    self._at -= 1
                    raise self._error("1 after -, which leaves the intercept out")
                without = True
            elif self._peek() == "0":
                self._take()
                without = True
            else:
                terms += self._product()
                self._bound(terms)
            if self._peek() not in ("+", "-"):
                return terms, without
            sign = self._take()

    def _product(self) -> list[Product]:
        terms = self._cross()
        while self._peek() == "*":
            self._take()
            others = self._cross()
            terms = [*terms, *others, *self._crossed(terms, others)]
        return terms

    def _cross(self) -> list[Product]:
        terms = self._power()
        while self._peek() == ":":
            self._take()
            terms = self._crossed(terms, self._power())
        return terms

    def _power(self) -> list[Product]:
        terms = self._atom()
        if self._peek() != "^":
            return terms
        self._take()
        token = self._peek()
        if not token.isdecimal() or not 1 <= int(token[:3]) <= _POWER:
            raise self._error(f"a whole power from 1 to {_POWER} after ^")
        power = int(self._take())
        if len(terms) == 1:
            return [_times(*[terms[0]] * power)]
        reached = _distinct(terms)
        for _ in range(power - 1):
            products = [_times(a, b) for a in reached for b in terms if not dict(a).keys() & dict(b).keys()]
            reached = _distinct([*reached, *products])
            self._bound(reached)
        return reached

    def _atom(self) -> list[Product]:
        if self._peek() == "(":
            self._take()
            self._depth += 1
            if self._depth > _DEEPEST:
                raise self._error(f"at most {_DEEPEST} parentheses inside each other")
            terms, without = self._sum()
            if without or () in terms:
                raise InputError(self._where, "", "expected the intercept outside parentheses")
            self._expect(")")
            self._depth -= 1
            return terms
        if self._peek() == "1":
            self._take()
            return [()]
        name = self._name("a column, log(column), sqrt(column), a number 0 or 1, or (")
        if self._peek() != "(":
            return [((name, 1),)]
        if name not in FUNCTIONS:
            self._at -= 1
            raise self._error(f"an operator between terms, or one of {', '.join(FUNCTIONS)} before (")
        self._take()
        column = self._name(f"a column inside {name}()")
        self._expect(")")
        return [((f"{name}({column})", 1),)]

    def _crossed(self, left: list[Product], right: list[Product]) -> list[Product]:
        if () in left or () in right:
            raise InputError(
                self._where, "", "expected columns on both sides of : and *, found the intercept"
            )
        self._bound([(("", 1),)] * (len(left) * len(right)))
        return [_times(a, b) for a in left for b in right]

    def _bound(self, terms: list[Product]) -> None:
        if len(terms) > _TERMS:
            raise InputError(self._where, "", f"expected at most {_TERMS} terms, found more")

    def _split(self) -> Iterator[str]:
        text, at = self._text.rstrip(), 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                found = text[at:].lstrip()[0]
                raise InputError(
                    self._where,
                    "",
                    f"expected names, numbers and ~ + - : * ^ ( ), found {quoted(found)} in {quoted(text)}",
                )
            yield match.group().strip()
            at = match.end()

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _name(self, expected: str) -> str:
        token = self._peek()
        if not token or not (token[0].isalpha() or token[0] == "_"):
            raise self._error(expected)
        return self._take()

    def _expect(self, token: str) -> None:
        if self._peek() != token:
            raise self._error(token)
        self._take()

    def _error(self, expected: str) -> InputError:
        found = quoted(self._peek()) if self._peek() else "the end"
        return InputError(self._where, "", f"expected {expected}, found {found} in {quoted(self._text)}")


def _times(*products: Product) -> Product:
    """Product of products: powers of a name add up."""
    powers: dict[str, int] = {}
    for name, power in (pair for product in products for pair in product):
        powers[name] = powers.get(name, 0) + power
    return tuple(powers.items())


def _distinct(terms: Iterable[Product]) -> list[Product]:
    """Terms without repetition, in the order of their first appearance; b:a is a:b."""
    return list({frozenset(term): term for term in reversed(list(terms))}.values())[::-1]
