"""The admin API: keys, teams, aliases, tiers and providers that operators change at run time, and usage queries."""
