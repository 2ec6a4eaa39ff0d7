"""Throughput as a polynomial of the buffer: its value, its vertex, its inverse, where it holds.

The only parabola of the project: fitted curves (`mptune.response.quadratic`) and published formulas
(GLM study Eq. 4 and 5, MPCOA Table 4) are both made of it. It is arithmetic; it does not know where the
coefficients come from or how certain they are.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from mptune.errors import InputError

#: The polynomial's variable: the buffer itself, its square root, its natural logarithm.
Regressor = Literal["buffer", "root", "logarithm"]

X_OF: dict[str, Callable[[float], float]] = {"buffer": float, "root": math.sqrt, "logarithm": math.log}
_BUFFER_OF: dict[str, Callable[[float], float]] = {
    "buffer": float,
    "root": lambda x: x * x,
    "logarithm": math.exp,
}
SYMBOLS = {"buffer": "{b}", "root": "sqrt({b})", "logarithm": "ln({b})"}


#: Rounding errors of a polynomial, as a share of its largest terms.
_ROUNDING = 1e-14


class Vertex(NamedTuple):
    """Peak of a concave equation, in the units of the equation."""

    buffer: float
    throughput: float


class Equation(msgspec.Struct, frozen=True, kw_only=True):
    """`intercept + linear x + quadratic x^2` with x the buffer (or its root or logarithm).

    Attributes
    ----------
    domain : smallest and largest buffer it was fitted to; None if unknown.
    regressor : what x is. A root or a logarithm stands alone (no quadratic term) and has a domain.
    throughput_unit, buffer_unit : units of the coefficients; by default the GLM study's.
    """

    intercept: float
    linear: float
    quadratic: float = 0.0
    domain: tuple[float, float] | None = None
    regressor: Regressor = "buffer"
    throughput_unit: str = "bit/s"
    buffer_unit: str = "byte"

    def __post_init__(self) -> None:
        """Enforce the two rules for roots and logarithms; callers in the code obey them.

        Raises
        ------
        ValueError : a rule is broken.
        """
        if self.regressor != "buffer" and (self.quadratic or self.domain is None):
            raise ValueError(f"{self.regressor}: must have a domain and no quadratic term")

    def predict(self, buffer: float) -> float:
        """Throughput at a buffer, inside the domain or not (see `contains`)."""
        x = X_OF[self.regressor](buffer)
        return self.intercept + (self.linear + self.quadratic * x) * x

    def contains(self, buffer: float) -> bool:
        """True if a buffer lies within the domain; always true without one."""
        return self.domain is None or self.domain[0] <= buffer <= self.domain[1]

    def check(self, buffer: float, where: str) -> None:
        """Refuse a buffer outside the domain.

        Raises
        ------
        InputError : it is outside; `where` is the option or file it came from.
        """
        if self.domain is not None and not self.contains(buffer):
            low, high = (f"{end:.10g}" for end in self.domain)
            raise InputError(
                where, "", f"expected a buffer of {low} to {high} {self.buffer_unit}, found {buffer:.10g}"
            )

    def vertex(self) -> Vertex | None:
        """Peak of a concave equation, inside the domain or not; None for any other."""
        if self.quadratic >= 0:
            return None
        buffer = -self.linear / (2 * self.quadratic)
        return Vertex(buffer, self.intercept + self.linear * buffer / 2)

    def maximum(self, low: float, high: float) -> Vertex:
        """Largest throughput within [low, high], at the smallest buffer that has it."""
        candidates = [low, high]
        if (vertex := self.vertex()) is not None:
            candidates.append(min(max(vertex.buffer, low), high))
        best = max(candidates, key=lambda buffer: (self.predict(buffer), -buffer))
        return Vertex(best, self.predict(best))

    def smallest_buffer(self, throughput: float, low: float, high: float) -> float | None:
        """Smallest buffer within [low, high] that reaches a throughput; None if none does.

        Between the ends it is the crossing on the rising branch: for a concave equation the smaller root
        (GLM study section VI, MPCOA Eq. 10).
        """
        if self.predict(low) >= throughput:
            return low
        top = self.maximum(low, high)
        # The throughput of the vertex itself may be a rounding error more than the equation gives there.
        if top.throughput < throughput - _ROUNDING * (abs(self.intercept) + abs(throughput)):
            return None
        rising = self._rising_crossing(throughput)
        if rising is None:
            return top.buffer
        return min(max(_BUFFER_OF[self.regressor](rising), low), top.buffer)

    def inverse(self, throughput: float, where: str = "wanted throughput") -> float:
        """Smallest buffer for a throughput, within the domain (without one, from 0 upwards).

        It is the lower end of the domain if even that reaches it.

        Raises
        ------
        InputError : the throughput is above the vertex, or above that of the domain's largest buffer; `where`
        is the option or file it came from.
        """
        low, high = self.domain or (0.0, self._far(throughput))
        buffer = self.smallest_buffer(throughput, low, high)
        if buffer is None:
            top = self.maximum(low, high)
            vertex = self.vertex()
            at_vertex = vertex is not None and vertex.buffer == top.buffer
            at = "the vertex" if at_vertex else "the most within the domain"
            raise InputError(
                where,
                "",
                f"expected at most {top.throughput:.10g} {self.throughput_unit}, {at} "
                f"(with {top.buffer:.10g} {self.buffer_unit}), found {throughput:.10g}",
            )
        return buffer

    def formula(self, throughput: str = "T", buffer: str = "B", digits: int = 4) -> str:
        """Return the equation as text, such as "T = 6.649e+06 + 5.029 B - 3.301e-08 B^2"."""
        x = SYMBOLS[self.regressor].format(b=buffer)
        terms = [f"{throughput} = {self.intercept:.{digits}g}", f"{signed(self.linear, digits)} {x}"]
        if self.quadratic:
            terms.append(f"{signed(self.quadratic, digits)} {x}^2")
        return " ".join(terms)

    def _rising_crossing(self, throughput: float) -> float | None:
        """The x at which the polynomial crosses `throughput` upwards (for a concave one the smaller root).

        There its slope is the square root of the discriminant; dividing by `slope + linear` instead of
        `2 quadratic` keeps the digits when that is tiny, and holds for a straight line as well.
        """
        discriminant = self.linear * self.linear - 4 * self.quadratic * (self.intercept - throughput)
        slope = math.sqrt(max(discriminant, 0.0))
        if self.linear + slope > 0:
            return 2 * (throughput - self.intercept) / (self.linear + slope)
        return (slope - self.linear) / (2 * self.quadratic) if self.quadratic > 0 else None

    def _far(self, throughput: float) -> float:
        """Upper end of an unknown domain: the vertex, or the crossing where there is none."""
        vertex = self.vertex()
        far = self._rising_crossing(throughput) if vertex is None else vertex.buffer
        return max(0.0, far or 0.0)


def signed(coefficient: float, digits: int = 4) -> str:
    """Coefficient with its sign set apart, as a formula has it."""
    return f"{'-' if coefficient < 0 else '+'} {abs(coefficient):.{digits}g}"
