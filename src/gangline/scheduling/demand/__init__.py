"""What gangs ask for, reduced to what placement needs."""
