"""From a submission to its verdicts, and what is done about all of them together."""
