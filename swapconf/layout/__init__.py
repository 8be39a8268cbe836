"""Layouts: which ways there are to share a training out to the cards at hand, and which of them is fastest."""
