"""The scheduler's configuration: Volcano's and KAI's document, read strictly, as plugins ready for a session."""
