"""What did a failed run run out of, whose was it, and what held the memory?"""
