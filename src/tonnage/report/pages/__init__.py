"""Building blocks of a page: frame, colours and style, formatted numbers, plots and maps as SVG."""
