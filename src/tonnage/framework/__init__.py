"""Session, extension points, classes of identical pods, and the decision record."""
