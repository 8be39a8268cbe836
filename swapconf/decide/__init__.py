"""CONFIG + NETWORK -> STRATEGY: one decision for each site, with its reason; and the rules that find mistakes."""
