"""The mutating webhook: HAMi's rules of admission."""
