"""What every page is made of: its frame, colours and style, numbers in words, plots and maps drawn as SVG."""
