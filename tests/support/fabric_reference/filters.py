"""Filters: which wavelets of a color go from the router to the core."""

from dataclasses import dataclass

from appliance.csl.program import Filter


@dataclass
class FilterState:
    """A filter at work."""

    kind: str
    counts_data: bool
    counts_control: bool
    filters_control: bool
    counter: int
    greatest: int
    limit: int
    second_limit: int | None
    least_index: int
    greatest_index: int
    is_active: bool = True

    @classmethod
    def of(cls, source: Filter) -> "FilterState":
        """Return a filter as the program configures it."""
        return cls(
            kind=source.kind,
            counts_data=source.count_data,
            counts_control=source.count_control,
            filters_control=source.filter_control,
            counter=source.init_counter,
            greatest=source.max_counter,
            limit=source.limit1,
            second_limit=source.limit2,
            least_index=source.min_index,
            greatest_index=source.max_index,
        )

    def passes(self, data: int, *, is_control: bool) -> bool:
        """Say whether a wavelet would pass, and count nothing."""
        if self.kind == "range":
            return is_control or self.least_index <= data >> 16 <= self.greatest_index
        if not (self.counts_control if is_control else self.counts_data):
            return True
        if is_control and self.filters_control:
            return self.counter == self.greatest
        return self.counter <= self.greatest

    def count(self, *, is_control: bool) -> None:
        """Count a wavelet that came by."""
        if self.kind == "range":
            return
        if not (self.counts_control if is_control else self.counts_data):
            return
        if self.counter != self.limit:
            self.counter += 1
            return
        self.counter = 0
        if self.kind == "sparse_counter":
            if self.second_limit is None:
                self.is_active = False
            else:
                self.limit, self.second_limit = self.second_limit, None
