"""Rows of figures, printed as they come or kept for JSON."""


class Report:
    """Rows of figures with the floor or ceiling that each should keep."""

    def __init__(self, quiet: bool) -> None:
        self.rows: list[dict[str, object]] = []
        self._quiet = quiet

    def add(self, name: str, value: float, unit: str, bound: str = "", met: bool | None = None) -> None:
        self.rows.append({"measure": name, "value": round(value, 4), "unit": unit, "bound": bound, "met": met})
        if not self._quiet:
            mark = {None: "", True: "ok", False: "MISSED"}[met]
            print(f"{name:<78} {value:>10.4g} {unit:<8} {bound:<14} {mark}".rstrip(), flush=True)

    def at_least(self, name: str, value: float, unit: str, bound: float) -> None:
        self.add(name, value, unit, f">= {bound:g}", value >= bound)

    def at_most(self, name: str, value: float, unit: str, bound: float) -> None:
        self.add(name, value, unit, f"<= {bound:g}", value <= bound)
