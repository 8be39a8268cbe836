"""What everything may use: phrases, findings, units; the words that people read, in English and Chinese."""
