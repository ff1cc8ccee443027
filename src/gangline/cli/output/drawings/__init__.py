"""What commands draw: curves in a terminal or a picture, and runs of pipelines."""
