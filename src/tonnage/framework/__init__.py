"""Framework: sessions, extension points, pod classes, statements, decisions and the registry of reasons."""
