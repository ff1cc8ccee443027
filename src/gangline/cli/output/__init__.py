"""What commands print: tables, documents, plots and lines."""
