"""What is seen of running gangs: events, output, numbers, health, and the models that they leave."""
