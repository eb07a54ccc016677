"""What clients did and saw, read from recordings and judged, promise by promise."""
