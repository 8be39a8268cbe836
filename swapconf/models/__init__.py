"""CONFIG -> NETWORK: which layers a model has, which operators are in them and who reads whose output."""
