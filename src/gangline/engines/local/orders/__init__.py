"""What a keeper is told: from a gang to one order for each replica. Pure, but for looking things up."""
