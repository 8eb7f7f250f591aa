"""Configurations: the scheduler's document of Volcano or KAI, and HAMi's device configuration, both read strictly."""
