"""Plans of changes: what is compared, checked and found before anything is touched."""
