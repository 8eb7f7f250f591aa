"""The mutating webhook, with HAMi's rules of admission."""
